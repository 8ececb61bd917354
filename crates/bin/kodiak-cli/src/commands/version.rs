//! `kodiak version`: of this command, and of the control plane if it is reachable.

use std::time::Duration;

use kodiak_client::ControlPlaneInfo;
use kodiak_terminal::Exit;

use crate::session::Session;

/// Timeout for an unreachable control plane: nobody wants to wait long for a version.
const PATIENCE: Duration = Duration::from_secs(3);

pub async fn run(session: &Session) -> anyhow::Result<Exit> {
    session.terminal.result(concat!("Client: Kodiak ", env!("CARGO_PKG_VERSION")))?;
    let server = match session.client() {
        Ok(client) => match tokio::time::timeout(PATIENCE, client.info()).await {
            Ok(Ok(info)) => shown(&info, &client.address().to_string()),
            Ok(Err(error)) => format!("{:#}", anyhow::Error::from(error)),
            Err(_) => format!("no answer from {} within {}s", client.address(), PATIENCE.as_secs()),
        },
        Err(error) => format!("{error:#}"),
    };
    session.terminal.result(&format!("Server: {server}"))?;
    Ok(Exit::Fine)
}

fn shown(info: &ControlPlaneInfo, address: &str) -> String {
    let ControlPlaneInfo { product, version, hostname, instance_id, cluster_id: _ } = info;
    let mut text = format!("{product} {version} at {address}");
    if !hostname.is_empty() {
        text = format!("{text} ({hostname}, instance {instance_id})");
    }
    text
}
