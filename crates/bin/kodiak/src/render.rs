//! `kodiak render`: Envoy configuration of a dataplane, generated from files.

use std::sync::Arc;

use clap::ValueEnum;
use clap::builder::NonEmptyStringValueParser;
use kodiak_cli::documents::FileArgs;
use kodiak_engine::{EngineChange, EngineSettings, offline, redacted};
use kodiak_model::{ProxyKey, yaml};
use kodiak_reachability::Mode;
use kodiak_terminal::{Exit, Terminal, usage};
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

    /// Reachability mode of the control plane: off, shadow or on. Labels of the Mesh and the Dataplane override it
    #[arg(long, value_name = "MODE", default_value = "off")]
    reachability: Mode,

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
    let Some(world) = args.files.world(&args.mesh, &args.zone, terminal)? else { return Ok(Exit::Refused) };
    let mut changes = EngineChange::of_mesh(&world, &args.mesh);
    if world.mesh(&args.mesh).is_none() {
        changes.push(EngineChange::Mesh {
            name: args.mesh.as_str().into(),
            mesh: Some(Arc::default()),
            reachability: None,
        });
    }
    let proxy = ProxyKey::new(&args.mesh, &args.proxy);
    let settings = EngineSettings {
        zone: args.zone.as_str().into(),
        reachability: args.reachability,
        ..EngineSettings::default()
    };
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
