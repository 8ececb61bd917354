//! `kodiak render`: what a proxy would get, from files alone.

use std::sync::Arc;

use clap::ValueEnum;
use clap::builder::NonEmptyStringValueParser;
use jiff::Timestamp;
use kodiak_cli::documents::FileArgs;
use kodiak_engine::{Change, Settings, offline, shown};
use kodiak_model::kinds::dataplane::Dataplane;
use kodiak_model::kinds::mesh::{Mesh, MeshServicesMode};
use kodiak_model::policy::Body;
use kodiak_model::{Checked, Place, ProxyKey, language, yaml};
use kodiak_rules::{Policy, Proxy};
use kodiak_terminal::{Exit, Terminal, usage};
use kodiak_views::destination::{self, Destination, Stored};
use kodiak_xds::node::{NodeMetadata, Redirect, TransparentProxy};
use serde_json::json;

/// Where rules of `kodiak install transparent-proxy` send connections.
const INBOUND_PORT: u32 = 15006;
const OUTBOUND_PORT: u32 = 15001;

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  kodiak render -f mesh.yaml --proxy web-1
  kodiak render -R -f mesh/ --proxy web-1 --transparent-proxy -o json
  diff <(kodiak render -f old/ --proxy web-1) <(kodiak render -f new/ --proxy web-1)")]
pub(crate) struct Args {
    #[command(flatten)]
    files: FileArgs,

    /// The Dataplane whose proxy is meant
    #[arg(long, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    proxy: String,

    /// Its mesh, and that of resources that name none
    #[arg(short, long, default_value = "default")]
    mesh: String,

    /// The zone whose control plane would get the resources
    #[arg(long, default_value = "default")]
    zone: String,

    /// As if its machine sent all connections through it
    #[arg(long)]
    transparent_proxy: bool,

    /// How to print it
    #[arg(short, long, value_enum, default_value_t = Output::Yaml)]
    output: Output,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Output {
    Yaml,
    Json,
}

pub(crate) fn run(args: &Args, terminal: Terminal) -> anyhow::Result<Exit> {
    if args.files.is_empty() {
        return Err(usage("say what to render with -f FILE, -f FOLDER or -f -"));
    }
    let place = Place::Zone { name: args.zone.clone() };
    let Some(resources) = args.files.checked(&args.mesh, &place, terminal)? else { return Ok(Exit::Refused) };
    let mesh = resources.iter().find(|one| one.kind.name == "Mesh" && one.name == args.mesh);
    if mesh.is_none() {
        terminal
            .remark(&format!("Warning: there is no Mesh {:?} in the files; taking one without settings", args.mesh));
    }
    let mut mesh: Mesh = mesh.map_or_else(|| Ok(Mesh::default()), |mesh| language::decode(&mesh.spec))?;
    mesh.fill_defaults();
    let exclusive = mesh.mesh_services_mode() == MeshServicesMode::Exclusive;
    let within = resources.iter().filter(|one| one.mesh == args.mesh);
    let within = within.filter_map(|one| change(one, &args.zone, exclusive).transpose());
    let mut changes = within.collect::<Result<Vec<_>, _>>()?;
    changes.push(Change::Mesh { name: args.mesh.as_str().into(), mesh: Some(Arc::new(mesh)) });
    let proxy = ProxyKey::new(&args.mesh, &args.proxy);
    let settings = Settings { zone: args.zone.as_str().into(), ..Settings::default() };
    let config = offline::config(settings, changes, &proxy, Arc::new(metadata(args)));
    let config = config.map_err(|faults| anyhow::anyhow!("nothing would be sent: {}", faults.join("; ")))?;
    let shown = json!({ "xds": shown::config(&config)? });
    let text = match args.output {
        Output::Yaml => yaml::to_string(&shown),
        Output::Json => serde_json::to_string_pretty(&shown)?,
    };
    terminal.data(text.trim_end())?;
    Ok(Exit::Fine)
}

/// As the control plane would store it. `None` for what proxies do not depend on.
fn change(resource: &Checked, zone: &str, exclusive: bool) -> Result<Option<Change>, serde_json::Error> {
    let (mesh, name): (Arc<str>, Arc<str>) = (resource.mesh.as_str().into(), resource.name.as_str().into());
    let labels = Arc::new(resource.labels.clone());
    if resource.kind.name == "Dataplane" {
        let mut dataplane: Dataplane = language::decode(&resource.spec)?;
        dataplane.set_zone_tag(zone, exclusive);
        dataplane.on_create();
        let proxy =
            Proxy { mesh: mesh.clone(), name: name.clone(), labels, dataplane: Arc::new(dataplane), admission: None };
        return Ok(Some(Change::Dataplane { key: ProxyKey { mesh, name }, dataplane: Some(Arc::new(proxy)) }));
    }
    if let Some((_, kind)) = destination::KINDS.iter().find(|(known, _)| known.name == resource.kind.name) {
        let created = Timestamp::UNIX_EPOCH;
        let stored = Stored { mesh: &mesh, name: &name, labels: &labels, created, spec: &resource.spec, status: "" };
        let destination = Destination::read(*kind, stored).map(Arc::new);
        return Ok(Some(Change::Destination { mesh, kind: *kind, name, destination }));
    }
    let Some(facts) = &resource.kind.policy else { return Ok(None) };
    let kind = resource.kind;
    let body = Body::read(facts, &serde_json::from_str(&resource.spec)?)?;
    let policy = Policy { kind, mesh: mesh.clone(), name: name.clone(), labels, body };
    Ok(Some(Change::Policy { mesh, key: (kind.name, name), policy: Some(Arc::new(policy)) }))
}

/// What a proxy says of itself that says as little as can be.
fn metadata(args: &Args) -> NodeMetadata {
    let redirect = |port| Redirect { enabled: true, port: Some(port) };
    let transparent_proxy = args.transparent_proxy.then(|| TransparentProxy {
        inbound: redirect(INBOUND_PORT),
        outbound: redirect(OUTBOUND_PORT),
        dns: Redirect::default(),
        ip_family_mode: Some("ipv4".to_owned()),
    });
    NodeMetadata { transparent_proxy, ..NodeMetadata::default() }
}
