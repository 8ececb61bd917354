//! One stream on which a proxy gets health checks to run, and reports their results.

use std::sync::Arc;

use jiff::Timestamp;
use kodiak_ads::{Closing, Credential};
use kodiak_envoy::envoy::service::health::v3::HealthCheckSpecifier;
use kodiak_xds::{health, node::NodeMetadata};
use tokio::sync::watch;

use super::stream;

/// The open stream of health checks of a proxy.
pub(crate) struct HealthStream {
    pub(crate) id: u64,
    pub(crate) credential: Credential,
    /// Expiration time of the token.
    pub(crate) expires: Option<Timestamp>,
    pub(crate) closing: watch::Sender<Option<Closing>>,
    pub(crate) checks: watch::Sender<Option<Arc<HealthCheckSpecifier>>>,
    pub(crate) node: NodeMetadata,
    /// Revision of the store that the checks were made from.
    pub(crate) revision: u64,
}

impl HealthStream {
    pub(super) fn close(&self, code: u8, message: &str) -> bool {
        stream::close(&self.closing, code, message)
    }

    /// Sends checks that differ from those that the proxy has, and returns whether they did. `None` when it has checks of
    /// a newer revision.
    pub(super) fn send(
        &mut self,
        revision: u64,
        checks: impl FnOnce(&NodeMetadata) -> Option<HealthCheckSpecifier>,
    ) -> Option<bool> {
        if self.revision > revision {
            return None;
        }
        self.revision = revision;
        let specifier = checks(&self.node);
        let sent = self.checks.send_if_modified(|checks| {
            let new = match (&checks, specifier) {
                (None, None) => None,
                (Some(_), None) => Some(health::nothing()),
                (_, specifier) => specifier,
            };
            let is_new = checks.as_deref() != new.as_ref();
            if is_new {
                *checks = new.map(Arc::new);
            }
            is_new
        });
        Some(sent)
    }
}
