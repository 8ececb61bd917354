//! Refreshes the DNS names that the control plane publishes through Envoy, and the nameservers of the machine.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper::header::{ETAG, HeaderValue};
use tokio::sync::watch;

use super::resolvers;
use super::server::DnsSettings;
use super::table::Table;
use crate::dynamic_config;

const EVERY: Duration = Duration::from_secs(1);

/// Data that queries are answered with.
#[derive(Debug, Clone, Default)]
pub(super) struct Knowledge {
    pub(super) table: Arc<Table>,
    pub(super) nameservers: Arc<[SocketAddr]>,
}

/// Refreshes every second, forever. Without news the last data stays.
pub(super) async fn refresh(settings: DnsSettings, ourselves: SocketAddr, knowledge: watch::Sender<Knowledge>) {
    let mut version = None;
    loop {
        if let Ok(servers) = resolvers::read(&settings.resolv_conf, ourselves).await {
            knowledge.send_if_modified(|known| {
                let changed = *known.nameservers != *servers;
                known.nameservers = servers.into();
                changed
            });
        }
        if let Some(table) = names(&settings, &mut version).await {
            tracing::info!(names = table.len(), "DNS names of the mesh changed");
            knowledge.send_modify(|known| known.table = Arc::new(table));
        }
        tokio::time::sleep(EVERY).await;
    }
}

/// `None` when nothing changed, or the request failed.
async fn names(settings: &DnsSettings, version: &mut Option<HeaderValue>) -> Option<Table> {
    let answer = dynamic_config::changed(&settings.records, "/dns", version.as_ref()).await?;
    match Table::from_json(&answer.body) {
        Ok(table) => {
            *version = answer.headers.get(ETAG).cloned();
            Some(table)
        }
        Err(error) => {
            tracing::warn!(%error, "failed to decode DNS names of the mesh, keeping the last ones");
            None
        }
    }
}
