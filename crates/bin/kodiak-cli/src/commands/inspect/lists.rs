//! `kodiak inspect dataplanes`, `meshes`, `services`, `zones`, `zoneingresses` and `zoneegresses`.

use jiff::Timestamp;
use kodiak_client::{Client, ListQuery, Refusal};
use kodiak_kinds::kinds;
use kodiak_terminal::{Exit, usage};
use serde_json::{Value, json};

use crate::report::{Output, insights};
use crate::session::Session;

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  kodiak inspect dataplanes
  kodiak inspect dataplanes -m demo --tag kuma.io/service=web
  kodiak inspect dataplanes --gateway -o json")]
pub(super) struct DataplanesArgs {
    /// Only proxies with this tag. May be repeated
    #[arg(long = "tag", value_name = "KEY=VALUE", value_parser = kodiak_terminal::key_value)]
    tags: Vec<(String, String)>,

    /// Only gateways
    #[arg(long)]
    gateway: bool,

    /// Not available: zone ingresses are no Dataplanes
    #[arg(long, hide = true)]
    ingress: bool,

    #[command(flatten)]
    of_mesh: MeshArgs,
}

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  kodiak inspect services
  kodiak inspect services -m demo -o yaml")]
pub(super) struct ServicesArgs {
    #[command(flatten)]
    of_mesh: MeshArgs,
}

#[derive(clap::Args)]
struct MeshArgs {
    /// Mesh [default: that of the context, or default]
    #[arg(short, long)]
    mesh: Option<String>,

    /// Output format
    #[arg(short, long, value_enum, default_value_t = Output::Table)]
    output: Output,
}

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  kodiak inspect meshes
  kodiak inspect zones -o json")]
pub(super) struct GlobalListArgs {
    /// Output format
    #[arg(short, long, value_enum, default_value_t = Output::Table)]
    output: Output,
}

/// Lists of global scope.
#[derive(Debug, Clone, Copy)]
pub(super) enum GlobalList {
    Meshes,
    Zones,
    ZoneIngresses,
    ZoneEgresses,
}

pub(super) async fn dataplanes(args: &DataplanesArgs, session: &Session) -> anyhow::Result<Exit> {
    if args.ingress {
        return Err(usage("zone ingresses are no Dataplanes; `kodiak inspect zoneingresses` lists them"));
    }
    let mesh = session.mesh(args.of_mesh.mesh.as_deref())?;
    let listed = session.client()?.dataplane_overviews(&mesh, &args.tags, args.gateway).await;
    let items = listed.map_err(|error| no_mesh(error, &mesh))?;
    show(session, args.of_mesh.output, &items, || insights::dataplanes(&items, Timestamp::now()))
}

pub(super) async fn services(args: &ServicesArgs, session: &Session) -> anyhow::Result<Exit> {
    let mesh = session.mesh(args.of_mesh.mesh.as_deref())?;
    let listed = list(&session.client()?, "ServiceInsight", Some(&mesh), false).await;
    let items = listed.map_err(|error| no_mesh(error, &mesh))?;
    show(session, args.of_mesh.output, &items, || insights::services(&items))
}

pub(super) async fn global(what: GlobalList, args: &GlobalListArgs, session: &Session) -> anyhow::Result<Exit> {
    let client = session.client()?;
    let (kind, overview) = match what {
        GlobalList::Meshes => ("MeshInsight", false),
        GlobalList::Zones => ("Zone", true),
        GlobalList::ZoneIngresses => ("ZoneIngress", true),
        GlobalList::ZoneEgresses => ("ZoneEgress", true),
    };
    let items = list(&client, kind, None, overview).await?;
    let now = Timestamp::now();
    show(session, args.output, &items, || match what {
        GlobalList::Meshes => insights::meshes(&items),
        GlobalList::Zones => insights::zones(&items, now),
        GlobalList::ZoneIngresses => insights::zone_proxies(&items, "zoneIngressInsight", now),
        GlobalList::ZoneEgresses => insights::zone_proxies(&items, "zoneEgressInsight", now),
    })
}

async fn list(
    client: &Client,
    kind: &str,
    mesh: Option<&str>,
    overview: bool,
) -> Result<Vec<Value>, kodiak_client::ClientError> {
    let kind = kinds().by_name(kind).expect("the kind is in the table");
    client.list_all(&ListQuery { overview, ..ListQuery::all_of(kind, mesh) }, |_, _| ()).await
}

fn no_mesh(error: kodiak_client::ClientError, mesh: &str) -> anyhow::Error {
    if error.refusal().is_some_and(Refusal::is_not_found) {
        return anyhow::anyhow!("no Mesh with name {mesh:?}; `kodiak get meshes` lists them");
    }
    error.into()
}

fn show(session: &Session, output: Output, items: &[Value], table: impl FnOnce() -> String) -> anyhow::Result<Exit> {
    let document = json!({ "total": items.len(), "items": items, "next": null });
    session.terminal.data(&output.show(&document, table)?)?;
    Ok(Exit::Fine)
}
