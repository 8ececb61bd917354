//! Refreshes the mesh's DNS records, which Envoy received from the control plane, and the host's nameservers.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper::header::{ETAG, HeaderValue};
use hyper::{Method, StatusCode};
use tokio::sync::watch;

use super::resolvers;
use super::server::Settings;
use super::table::Table;
use crate::socket;

const EVERY: Duration = Duration::from_secs(1);

/// Data that answers questions.
#[derive(Debug, Clone, Default)]
pub(super) struct Knowledge {
    pub(super) table: Arc<Table>,
    pub(super) nameservers: Arc<[SocketAddr]>,
}

/// Polls every second, forever. The last data stays while there is nothing new.
pub(super) async fn refresh(settings: Settings, ourselves: SocketAddr, knowledge: watch::Sender<Knowledge>) {
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
            tracing::info!(names = table.len(), "updated DNS records of the mesh");
            knowledge.send_modify(|known| known.table = Arc::new(table));
        }
        tokio::time::sleep(EVERY).await;
    }
}

/// `None` when nothing changed, or when Envoy does not respond.
async fn names(settings: &Settings, version: &mut Option<HeaderValue>) -> Option<Table> {
    let known: Vec<_> = version.iter().map(|version| ("if-none-match", version.clone())).collect();
    let answer = match socket::ask(&settings.records, Method::GET, "/dns", &known).await {
        Ok(answer) if answer.status == StatusCode::OK => answer,
        // Not modified, or Envoy has no records yet.
        Ok(_) => return None,
        Err(error) => {
            tracing::debug!(%error, "failed to read DNS records from Envoy");
            return None;
        }
    };
    match Table::from_json(&answer.body) {
        Ok(table) => {
            *version = answer.headers.get(ETAG).cloned();
            Some(table)
        }
        Err(error) => {
            tracing::warn!(%error, "failed to parse DNS records, keeping the last ones");
            None
        }
    }
}
