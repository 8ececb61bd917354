//! One ADS stream of a proxy, and its reports.

use std::{
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use jiff::Timestamp;
use kodiak_ads::{Closing, Credential, Protocol, Report, StreamReport};
use kodiak_metrics::Exchanged;
use kodiak_model::{ProxyKey, subscription::Version};
use kodiak_xds_stream::{Snapshot, TypeUrl};
use tokio::sync::watch;

use super::{
    pushes::Push,
    rejection,
    rollout::Rollout,
    status::{ProxyStatus, TypeStatus},
};
use crate::Registry;

/// The open ADS stream of a proxy.
pub(crate) struct Stream {
    pub(crate) id: u64,
    pub(crate) protocol: Protocol,
    pub(crate) peer: SocketAddr,
    pub(crate) connected: Timestamp,
    pub(crate) credential: Credential,
    /// Expiration time of the token.
    pub(crate) expires: Option<Timestamp>,
    pub(crate) from_metadata: bool,
    pub(crate) version: Option<Version>,
    pub(crate) snapshots: watch::Sender<Option<Arc<Snapshot>>>,
    pub(crate) closing: watch::Sender<Option<Closing>>,
    pub(crate) rollout: Rollout,
    pub(crate) types: [TypeStatus; TypeUrl::COUNT],
    pub(crate) settled: Option<u64>,
    /// When the first snapshot that is not answered yet was published.
    pub(crate) published: Option<Instant>,
    pub(crate) push: Push,
    pub(crate) bytes: u64,
    pub(crate) faults: Vec<String>,
}

/// Changes that a report provided.
pub(crate) struct Reported {
    /// Counters, if they have changed.
    pub(crate) types: Option<[TypeStatus; TypeUrl::COUNT]>,
    /// The proxy has acknowledged everything for the first time on this stream.
    pub(crate) is_first: bool,
    /// Step of the snapshot that was acknowledged.
    pub(crate) acknowledged: Option<Arc<str>>,
    /// Permissions and certificates of the snapshot that was acknowledged; empty if nobody waits for them.
    pub(crate) permissions: Option<Arc<str>>,
    /// Error that holds up the step; empty for none. `None` while the proxy has not answered.
    pub(crate) rejecting: Option<String>,
    pub(crate) exchanged: [(TypeUrl, Exchanged); TypeUrl::COUNT],
    /// The newest snapshot is answered, this long after it was published.
    pub(crate) delivered: Option<Duration>,
}

impl Stream {
    /// Asks the stream to end. The first reason stays; false for a later one.
    pub(crate) fn close(&self, code: u8, message: &str) -> bool {
        close(&self.closing, code, message)
    }

    pub(crate) fn take(&mut self, report: &StreamReport<'_>) -> Reported {
        let mut reported = Reported {
            types: None,
            is_first: false,
            acknowledged: None,
            permissions: None,
            rejecting: None,
            exchanged: report.counters.map(|(type_url, _)| (type_url, Exchanged::default())),
            delivered: None,
        };
        let mut changed = false;
        for (index, (type_url, counters)) in report.counters.iter().enumerate() {
            let now = TypeStatus {
                type_url: *type_url,
                sent: counters.sent,
                acknowledged: counters.acknowledged,
                rejected: counters.rejected,
                last_error: counters.last_error.clone(),
                rejecting: counters.rejecting,
            };
            if self.types[index] != now {
                changed = true;
                let before = &self.types[index];
                reported.exchanged[index].1 = Exchanged {
                    sent: now.sent.saturating_sub(before.sent),
                    acknowledged: now.acknowledged.saturating_sub(before.acknowledged),
                    rejected: now.rejected.saturating_sub(before.rejected),
                };
                self.types[index] = now;
            }
        }
        reported.types = changed.then(|| self.types.clone());
        if let Some(revision) = report.settled {
            reported.is_first = self.settled.is_none();
            self.settled = Some(revision);
            if self.snapshots.borrow().as_ref().is_some_and(|snapshot| snapshot.revision == revision) {
                reported.delivered = self.published.take().map(|published| published.elapsed());
            }
            // A proxy that runs on an older configuration has not acknowledged it.
            let snapshot = self.snapshots.borrow();
            let holding_up = rejection::holding_up(&self.types, snapshot.as_deref());
            let tokens = self.rollout.settled(revision);
            let permissions = tokens.as_ref().map(|tokens| tokens.permissions.clone());
            let is_rejected = rejection::concerns_permissions(&self.types, snapshot.as_deref());
            reported.permissions = permissions.filter(|_| !is_rejected);
            reported.acknowledged = tokens.map(|tokens| tokens.rollout).filter(|_| holding_up.is_none());
            reported.rejecting = Some(holding_up.unwrap_or_default());
        }
        self.bytes += report.bytes;
        reported
    }

    pub(crate) fn status(&self, key: &ProxyKey) -> ProxyStatus {
        ProxyStatus {
            key: key.clone(),
            protocol: self.protocol,
            connected: self.connected,
            from_metadata: self.from_metadata,
            version: self.version.clone(),
            types: self.types.clone(),
            published: self.snapshots.borrow().as_ref().map(|snapshot| snapshot.revision),
            settled: self.settled,
            bytes_sent: self.bytes,
            faults: self.faults.clone(),
        }
    }
}

/// Asks a stream to end. The first reason stays; false for a later one.
pub(crate) fn close(stream: &watch::Sender<Option<Closing>>, code: u8, message: &str) -> bool {
    stream.send_if_modified(|closing| {
        let open = closing.is_none();
        if open {
            *closing = Some(Closing { code, message: message.to_owned() });
        }
        open
    })
}

/// Receives the reports of a stream from the port. Dropping it means that the stream has ended.
pub(crate) struct Reporter {
    pub(crate) registry: Registry,
    pub(crate) key: ProxyKey,
    pub(crate) id: u64,
    /// This control plane ended the stream of a proxy that may connect.
    pub(crate) is_refused: bool,
}

impl Report for Reporter {
    fn report(&mut self, report: StreamReport<'_>) {
        self.registry.reported(&self.key, self.id, &report);
    }

    fn closed(&mut self, closing: &Closing) {
        self.is_refused = closing.code != Closing::UNAUTHENTICATED;
    }
}

impl Drop for Reporter {
    fn drop(&mut self) {
        self.registry.disconnected(&self.key, self.id, self.is_refused);
    }
}
