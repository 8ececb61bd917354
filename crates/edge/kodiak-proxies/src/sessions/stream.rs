//! One stream of a proxy, and what it reports.

use std::sync::Arc;

use jiff::Timestamp;
use kodiak_ads::{Closing, Credential, Protocol, Report, StreamReport};
use kodiak_model::{ProxyKey, subscription::Version};
use kodiak_xds_stream::{Snapshot, TypeUrl};
use tokio::sync::watch;

use crate::{
    Registry,
    sessions::rejection,
    sessions::rollout::Rollout,
    sessions::status::{ProxyStatus, TypeStatus},
};

/// The open stream of a proxy.
pub(crate) struct Stream {
    pub(crate) id: u64,
    pub(crate) protocol: Protocol,
    pub(crate) connected: Timestamp,
    pub(crate) credential: Credential,
    /// When its token is worth nothing any more.
    pub(crate) expires: Option<Timestamp>,
    pub(crate) from_metadata: bool,
    pub(crate) version: Option<Version>,
    pub(crate) snapshots: watch::Sender<Option<Arc<Snapshot>>>,
    pub(crate) closing: watch::Sender<Option<Closing>>,
    pub(crate) rollout: Rollout,
    pub(crate) types: [TypeStatus; TypeUrl::COUNT],
    pub(crate) settled: Option<u64>,
    pub(crate) bytes: u64,
    pub(crate) faults: Vec<String>,
}

/// What a report has changed.
pub(crate) struct Reported {
    pub(crate) counters: bool,
    /// The proxy has acknowledged everything for the first time on this stream.
    pub(crate) is_first: bool,
    /// The token of the snapshot that was acknowledged.
    pub(crate) acknowledged: Option<Arc<str>>,
    /// What holds up the step instead; empty for nothing. `None` while the proxy has not answered.
    pub(crate) rejecting: Option<String>,
    pub(crate) rejected: [(TypeUrl, u64); TypeUrl::COUNT],
}

impl Stream {
    /// Asks it to end. The first reason stays; false for a later one.
    pub(crate) fn close(&self, code: u8, message: &str) -> bool {
        close(&self.closing, code, message)
    }

    pub(crate) fn take(&mut self, report: &StreamReport<'_>) -> Reported {
        let mut reported = Reported {
            counters: false,
            is_first: false,
            acknowledged: None,
            rejecting: None,
            rejected: report.counters.map(|(type_url, _)| (type_url, 0)),
        };
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
                reported.counters = true;
                reported.rejected[index].1 = now.rejected.saturating_sub(self.types[index].rejected);
                self.types[index] = now;
            }
        }
        if let Some(revision) = report.settled {
            reported.is_first = self.settled.is_none();
            self.settled = Some(revision);
            // A proxy that runs on something older has not taken the step.
            let holding_up = rejection::holding_up(&self.types, self.snapshots.borrow().as_deref());
            reported.acknowledged = self.rollout.settled(revision).filter(|_| holding_up.is_none());
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

/// What the port holds of a stream. Dropping it says that the stream has ended.
pub(crate) struct Reporter {
    pub(crate) registry: Registry,
    pub(crate) key: ProxyKey,
    pub(crate) id: u64,
}

impl Report for Reporter {
    fn report(&mut self, report: StreamReport<'_>) {
        self.registry.reported(&self.key, self.id, &report);
    }
}

impl Drop for Reporter {
    fn drop(&mut self) {
        self.registry.left(&self.key, self.id);
    }
}
