//! Keeping up: the names that the control plane gave Envoy for us, and the nameservers of the machine.

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

/// What questions are answered with.
#[derive(Debug, Clone, Default)]
pub(super) struct Knowledge {
    pub(super) table: Arc<Table>,
    pub(super) nameservers: Arc<[SocketAddr]>,
}

/// Looks every second, for ever. What was known stays where there is nothing new.
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
            tracing::info!(names = table.len(), "The names of the mesh changed.");
            knowledge.send_modify(|known| known.table = Arc::new(table));
        }
        tokio::time::sleep(EVERY).await;
    }
}

/// `None` where nothing changed, and where nobody says so.
async fn names(settings: &Settings, version: &mut Option<HeaderValue>) -> Option<Table> {
    let known: Vec<_> = version.iter().map(|version| ("if-none-match", version.clone())).collect();
    let answer = match socket::ask(&settings.records, Method::GET, "/dns", &known).await {
        Ok(answer) if answer.status == StatusCode::OK => answer,
        // Not modified, or Envoy has no names for us yet.
        Ok(_) => return None,
        Err(error) => {
            tracing::debug!(%error, "Envoy does not say which names there are.");
            return None;
        }
    };
    match Table::from_json(&answer.body) {
        Ok(table) => {
            *version = answer.headers.get(ETAG).cloned();
            Some(table)
        }
        Err(error) => {
            tracing::warn!(%error, "The names of the mesh cannot be read; the last ones stay.");
            None
        }
    }
}
