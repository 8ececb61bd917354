//! `kodiak version`: ours, and the server's if it can be reached.

use std::time::Duration;

use kodiak_client::Index;
use kodiak_terminal::Exit;

use crate::session::Session;

/// Whoever asks for a version does not want to wait for a server that is not there.
const PATIENCE: Duration = Duration::from_secs(3);

pub async fn run(session: &Session) -> anyhow::Result<Exit> {
    session.terminal.result(concat!("Client: Kodiak ", env!("CARGO_PKG_VERSION")))?;
    let server = match session.client() {
        Ok(client) => match tokio::time::timeout(PATIENCE, client.index()).await {
            Ok(Ok(index)) => shown(&index, &client.address().to_string()),
            Ok(Err(error)) => format!("{:#}", anyhow::Error::from(error)),
            Err(_) => format!("no answer from {} within {}s", client.address(), PATIENCE.as_secs()),
        },
        Err(error) => format!("{error:#}"),
    };
    session.terminal.result(&format!("Server: {server}"))?;
    Ok(Exit::Fine)
}

fn shown(index: &Index, address: &str) -> String {
    let Index { product, version, hostname, instance_id, cluster_id: _ } = index;
    let mut text = format!("{product} {version} at {address}");
    if !hostname.is_empty() {
        text = format!("{text} ({hostname}, instance {instance_id})");
    }
    text
}
