//! `kodiak export`: resources as YAML that can be applied again, here or elsewhere.

mod prepare;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::ValueEnum;
use kodiak_client::{Client, ControlPlaneInfo, ListQuery};
use kodiak_kinds::{Kind, kinds};
use kodiak_model::{Access, Scope, yaml};
use kodiak_terminal::{Exit, usage};
use serde::Deserialize;
use serde_json::Value;

use crate::commands::elsewhere::Elsewhere;
use crate::private_file;
use crate::session::Session;

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  kodiak export > federation.yaml                 resources that a global control plane needs
  kodiak export --profile all --include-admin --out backup.yaml
  kodiak export --profile no-dataplanes --out mesh/    a file per kind; apply it with `kodiak apply -f mesh/`

Federation profiles always include secrets: they are useless without them.
Files are readable by their owner only.")]
pub struct Args {
    /// Kinds to export
    #[arg(short, long, value_enum, default_value_t = Profile::Federation)]
    profile: Profile,

    /// Format of the resources
    #[arg(short, long, value_enum, default_value_t = Format::Universal)]
    format: Format,

    /// Include secrets
    #[arg(short = 'a', long)]
    include_admin: bool,

    /// A file, or a folder (it exists, or ends with /) for a file per kind [default: standard output]
    #[arg(long, value_name = "FILE|DIR")]
    out: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Profile {
    /// Resources that a global control plane needs when this zone joins it
    Federation,
    /// The same, with policies
    FederationWithPolicies,
    /// Everything
    All,
    /// Everything except Dataplanes
    NoDataplanes,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Files for `kodiak apply`
    Universal,
    #[value(hide = true)]
    Kubernetes,
}

impl Profile {
    fn is_federation(self) -> bool {
        match self {
            Self::Federation | Self::FederationWithPolicies => true,
            Self::All | Self::NoDataplanes => false,
        }
    }

    fn takes(self, kind: &Kind, in_federation: bool) -> bool {
        match self {
            Self::Federation => in_federation && !kind.is_policy(),
            Self::FederationWithPolicies => in_federation,
            Self::All => true,
            Self::NoDataplanes => kind.name != "Dataplane",
        }
    }
}

/// Resources of one kind.
struct Exported {
    kind: &'static Kind,
    items: Vec<Value>,
}

pub async fn run(args: &Args, session: &Session) -> anyhow::Result<Exit> {
    if args.format == Format::Kubernetes {
        return Err(Elsewhere::Kubernetes.into());
    }
    let client = session.client()?;
    let info = client.info().await?;
    let kinds = chosen(args, session, &client).await?;
    let secrets = kinds.iter().any(|kind| kind.name == "Secret");
    let mut all = fetch(session, &client, &kinds).await?;
    for Exported { kind, items } in &mut all {
        prepare::prepare(kind, items, prepare::Opts { federation: args.profile.is_federation(), secrets });
    }
    let count: usize = all.iter().map(|exported| exported.items.len()).sum();
    match &args.out {
        None => session.terminal.data(to_yaml(&info, &in_order(&all)).trim_end())?,
        Some(out) if out.is_dir() || out.to_string_lossy().ends_with('/') => {
            write_folder(out, &info, &all)?;
            session.terminal.remark(&format!("{count} resources written to {}", out.display()));
        }
        Some(out) => {
            write(out, &to_yaml(&info, &in_order(&all)))?;
            session.terminal.remark(&format!("{count} resources written to {}", out.display()));
        }
    }
    Ok(Exit::Fine)
}

#[derive(Deserialize)]
struct KindsBody {
    resources: Vec<KindBody>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct KindBody {
    name: String,
    #[serde(default)]
    include_in_federation: bool,
}

/// Kinds of the server that the profile includes, in the order of the export.
async fn chosen(args: &Args, session: &Session, client: &Client) -> anyhow::Result<Vec<&'static Kind>> {
    let KindsBody { resources } =
        serde_json::from_value(client.kinds().await?).context("cannot parse the kinds of the server")?;
    let mut chosen = Vec::new();
    let mut unknown = Vec::new();
    for KindBody { name, include_in_federation } in resources {
        let Some(kind) = kinds().by_name(&name) else {
            unknown.push(name);
            continue;
        };
        let allowed = match kind.access {
            Access::Everyone => true,
            Access::Admin => args.include_admin || args.profile.is_federation(),
            // Insights: the next control plane has its own.
            Access::ReadOnly => false,
        };
        if allowed && args.profile.takes(kind, include_in_federation) {
            chosen.push(kind);
        }
    }
    if !unknown.is_empty() {
        session.terminal.error(&format!(
            "Warning: not exported, for this version of kodiak does not know them: {}",
            unknown.join(", ")
        ));
    }
    chosen.sort_by_key(|kind| (rank(kind), kind.name));
    Ok(chosen)
}

fn rank(kind: &Kind) -> u8 {
    match kind.name {
        "Mesh" => 0,
        "Secret" => 1,
        "GlobalSecret" => 3,
        _ => 2,
    }
}

async fn fetch(session: &Session, client: &Client, kinds: &[&'static Kind]) -> anyhow::Result<Vec<Exported>> {
    let meshes = match kodiak_kinds::kinds().by_name("Mesh") {
        Some(kind) => client.list_all(&ListQuery::all_of(kind, None), |_, _| ()).await?,
        None => Vec::new(),
    };
    let meshes: Vec<_> = meshes.iter().filter_map(|mesh| mesh.get("name")?.as_str()).collect();
    let spinner = session.terminal.spinner();
    let mut all = Vec::new();
    for kind in kinds.iter().copied() {
        let places: Vec<_> = match kind.scope {
            Scope::Mesh => meshes.iter().map(|mesh| Some(*mesh)).collect(),
            Scope::Global => vec![None],
        };
        let mut items = Vec::new();
        for mesh in places {
            let query = ListQuery::all_of(kind, mesh);
            let listed = client.list_all(&query, |count, total| {
                spinner.set_message(format!("{} {}: {count} of {total}", kind.name, mesh.unwrap_or_default()));
                spinner.tick();
            });
            items.extend(listed.await.with_context(|| format!("cannot list {}", kind.name))?);
        }
        all.push(Exported { kind, items });
    }
    spinner.finish_and_clear();
    Ok(all)
}

/// All resources; signing keys of user tokens last, since applying one may invalidate the token in use.
fn in_order(all: &[Exported]) -> Vec<&Value> {
    let items = all.iter().flat_map(|exported| exported.items.iter().map(|item| (exported.kind, item)));
    let (last, first): (Vec<_>, Vec<_>) = items.partition(|(kind, item)| {
        let name = item.get("name").and_then(Value::as_str).unwrap_or_default();
        kind.name == "GlobalSecret" && name.starts_with("user-token-signing-key")
    });
    first.into_iter().chain(last).map(|(_, item)| item).collect()
}

fn to_yaml(info: &ControlPlaneInfo, items: &[&Value]) -> String {
    let ControlPlaneInfo { product, version, hostname, instance_id, cluster_id } = info;
    // A comment ends with its line, whatever text the server sends.
    let ends_line = |c: char| c.is_control() || matches!(c, '\u{2028}' | '\u{2029}');
    let head = [product, version, hostname, cluster_id, instance_id].map(|text| text.replace(ends_line, " "));
    let [product, version, hostname, cluster_id, instance_id] = head;
    let mut text = String::new();
    writeln!(
        text,
        "# Product: {product}, Version: {version}, Hostname: {hostname}, ClusterId: {cluster_id}, InstanceId: {instance_id}"
    )
    .expect("writing to a String does not fail");
    for item in items {
        text.push_str("---\n");
        text.push_str(&yaml::to_string(item));
    }
    text
}

fn write_folder(folder: &Path, info: &ControlPlaneInfo, all: &[Exported]) -> anyhow::Result<()> {
    for Exported { kind, items } in all.iter().filter(|exported| !exported.items.is_empty()) {
        let items: Vec<_> = items.iter().collect();
        write(&folder.join(format!("{}.yaml", kind.path)), &to_yaml(info, &items))?;
    }
    Ok(())
}

fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    private_file::write(path, text.as_bytes())
        .map_err(|error| usage(format!("cannot write {}: {error}", path.display())))
}
