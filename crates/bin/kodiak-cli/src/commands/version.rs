//! `kodiak version`: of this command, and of the control plane if it is reachable.

use std::time::Duration;

use kodiak_client::ControlPlaneInfo;
use kodiak_terminal::Exit;

use crate::exit;
use crate::session::Session;

/// Timeout for an unreachable control plane: nobody wants to wait long for a version.
const PATIENCE: Duration = Duration::from_secs(3);

#[derive(clap::Args)]
#[command(after_help = "\
Exits with 3 when the control plane is unreachable.

Examples:
  kodiak version
  kodiak version -a         more about this build and the control plane")]
pub struct Args {
    /// More about this build and the control plane
    #[arg(short = 'a', long)]
    detailed: bool,
}

pub async fn run(args: &Args, session: &Session) -> anyhow::Result<Exit> {
    session.terminal.result(concat!("Client: Kodiak ", env!("CARGO_PKG_VERSION")))?;
    if args.detailed {
        let build = if cfg!(debug_assertions) { "debug" } else { "release" };
        session.terminal.result(&format!("  Target:  {}-{}", std::env::consts::ARCH, std::env::consts::OS))?;
        session.terminal.result(&format!("  Build:   {build}"))?;
    }
    let (server, exit) = match session.client() {
        Ok(client) => match tokio::time::timeout(PATIENCE, client.info()).await {
            Ok(Ok(info)) => (shown(&info, &client.address().to_string(), args.detailed), Exit::Fine),
            Ok(Err(error)) => failed(&error.into()),
            Err(_) => {
                let text = format!("no answer from {} within {}s", client.address(), PATIENCE.as_secs());
                (text, Exit::Unreachable)
            }
        },
        Err(error) => failed(&error),
    };
    session.terminal.result(&format!("Server: {server}"))?;
    Ok(exit)
}

fn failed(error: &anyhow::Error) -> (String, Exit) {
    (format!("{error:#}"), exit::of(error))
}

fn shown(info: &ControlPlaneInfo, address: &str, detailed: bool) -> String {
    let ControlPlaneInfo { product, version, hostname, instance_id, cluster_id } = info;
    let mut text = format!("{product} {version} at {address}");
    if !hostname.is_empty() {
        text = format!("{text} ({hostname}, instance {instance_id})");
    }
    if detailed {
        text = format!("{text}\n  Cluster: {cluster_id}");
    }
    text
}
