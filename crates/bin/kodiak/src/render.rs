//! `kodiak render`: Envoy configuration of a dataplane, generated from files.

use std::sync::Arc;

use clap::ValueEnum;
use clap::builder::NonEmptyStringValueParser;
use kodiak_cli::documents::{FileArgs, as_stored};
use kodiak_engine::{EngineChange, EngineSettings, offline, redacted};
use kodiak_model::kinds::mesh::{Mesh, MeshServicesMode};
use kodiak_model::{Checked, Place, ProxyKey, yaml};
use kodiak_terminal::{Exit, Terminal, usage};
use kodiak_world::Resource;
use kodiak_xds::node::{NodeMetadata, Redirect, TransparentProxy};
use serde_json::json;

/// Default ports of `kodiak install transparent-proxy`.
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

    /// Name of the Dataplane
    #[arg(long, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    proxy: String,

    /// Mesh of the Dataplane, and of resources that name none
    #[arg(short, long, default_value = "default")]
    mesh: String,

    /// Zone of the control plane to validate for
    #[arg(long, default_value = "default")]
    zone: String,

    /// Render for a transparent proxy
    #[arg(long)]
    transparent_proxy: bool,

    /// Output format
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
        return Err(usage("pass the files to render with -f FILE, -f FOLDER or -f -"));
    }
    let place = Place::Zone { name: args.zone.clone() };
    let Some(mut resources) = args.files.checked(&args.mesh, &place, terminal)? else { return Ok(Exit::Refused) };
    let mesh = resources.iter().find(|one| one.kind.name == "Mesh" && one.name == args.mesh);
    if mesh.is_none() {
        terminal.remark(&format!("Warning: Mesh {:?} is not in the files; using one without settings", args.mesh));
    }
    let mut mesh = mesh.and_then(Checked::typed::<Mesh>).map(Arc::unwrap_or_clone).unwrap_or_default();
    mesh.fill_defaults();
    let exclusive = mesh.mesh_services_mode() == MeshServicesMode::Exclusive;
    let within = resources.iter_mut().filter(|one| one.mesh == args.mesh);
    let mut changes: Vec<EngineChange> = within.filter_map(|one| change(one, &args.zone, exclusive)).collect();
    changes.push(EngineChange::Mesh {
        name: args.mesh.as_str().into(),
        mesh: Some(Arc::new(mesh)),
        reachability: None,
    });
    let proxy = ProxyKey::new(&args.mesh, &args.proxy);
    let settings = EngineSettings { zone: args.zone.as_str().into(), ..EngineSettings::default() };
    let config = offline::config(settings, changes, &proxy, Arc::new(metadata(args)));
    let config = config.map_err(|faults| {
        anyhow::anyhow!("generated configuration failed validation, so it would not be sent: {}", faults.join("; "))
    })?;
    let shown = json!({ "xds": redacted::config(&config)? });
    let text = match args.output {
        Output::Yaml => yaml::to_string(&shown),
        Output::Json => serde_json::to_string_pretty(&shown)?,
    };
    terminal.data(text.trim_end())?;
    Ok(Exit::Fine)
}

/// As the control plane would store it. `None` for kinds that proxies do not depend on.
fn change(resource: &mut Checked, zone: &str, exclusive: bool) -> Option<EngineChange> {
    as_stored(resource, zone, exclusive);
    EngineChange::of(&kodiak_world::Change::put(Arc::new(Resource::checked(resource))))
}

/// Minimal metadata of a proxy.
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
