//! One stream on which a proxy reports its traffic.

use jiff::Timestamp;
use kodiak_ads::{Closing, Credential};
use tokio::sync::watch;

use super::stream;

/// The open stream of load reports of a proxy.
pub(crate) struct LoadStream {
    pub(crate) id: u64,
    pub(crate) credential: Credential,
    /// Expiration time of the token.
    pub(crate) expires: Option<Timestamp>,
    pub(crate) closing: watch::Sender<Option<Closing>>,
    /// Notified when the proxy has acknowledged new configuration.
    pub(crate) configured: watch::Sender<()>,
}

impl LoadStream {
    pub(super) fn close(&self, code: u8, message: &str) -> bool {
        stream::close(&self.closing, code, message)
    }
}
