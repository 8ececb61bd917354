//! Sessions: the open streams of connected proxies, and their snapshots, acknowledgements and tokens.
//!
//! A proxy has at most three: its ADS stream (`stream`), its stream of health checks (`health_stream`) and its stream of
//! load reports (`load_stream`). Of each the newest wins, and an older one is asked to end.
//!
//! - `rollout` and `rejection` find out which step of an mTLS rollout, and which permissions, a proxy has acknowledged.
//! - `pushes` counts the streams that still send what was published.
//! - `tokens` closes streams whose token is no longer valid.
//!
//! **Invariant:** one ADS stream for each proxy, the newest.
//! **Invariant:** proxy events have the order of what happened: they are sent under the lock.
//! **Invariant:** the lock is never held while a token is verified, the store is written, or another part is called.

mod health_stream;
mod load_stream;
mod pushes;
mod rejection;
mod rollout;
mod status;
mod stream;
mod tokens;

use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Instant,
};

use kodiak_ads::{Closing, StreamReport};
use kodiak_envoy::envoy::service::health::v3::HealthCheckSpecifier;
use kodiak_model::ProxyKey;
use kodiak_xds::node::NodeMetadata;
use kodiak_xds_stream::Snapshot;
use tokio::sync::{Notify, mpsc};

pub(crate) use health_stream::HealthStream;
pub(crate) use load_stream::LoadStream;
pub(crate) use pushes::Push;
use pushes::Pushes;
pub(crate) use rollout::Rollout;
pub use rollout::SnapshotTokens;
pub use status::{ProxyStatus, TypeStatus};
pub(crate) use stream::{Reported, Reporter, Stream};
pub(crate) use tokens::Presented;

const REPLACED: &str = "a newer connection of this proxy took over";

/// Lifecycle events of proxies, for the configuration writer. It answers `Connected` with
/// [`Registry::publish`](crate::Registry::publish).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProxyEvent {
    /// The proxy has a new stream, maybe in place of an older one.
    Connected {
        key: ProxyKey,
        metadata: Arc<NodeMetadata>,
    },
    Disconnected {
        key: ProxyKey,
    },
}

pub(crate) struct Sessions {
    state: Mutex<State>,
    last_id: AtomicU64,
    events: mpsc::UnboundedSender<ProxyEvent>,
    /// Few streams are sending.
    enough: Notify,
}

#[derive(Default)]
struct State {
    streams: BTreeMap<ProxyKey, Stream>,
    pushes: Pushes,
    health: BTreeMap<ProxyKey, HealthStream>,
    load: BTreeMap<ProxyKey, LoadStream>,
    /// The last proxy whose token the timer has verified again.
    rechecked: Option<ProxyKey>,
}

impl Sessions {
    pub(crate) fn new(events: mpsc::UnboundedSender<ProxyEvent>) -> Self {
        Self { state: Mutex::default(), last_id: AtomicU64::new(0), events, enough: Notify::new() }
    }

    /// Id of a new stream. A newer stream has a higher one.
    pub(crate) fn next_id(&self) -> u64 {
        self.last_id.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Returns the stream that has to end: an older one, or this one when a newer came first. `None` if the proxy was
    /// not connected before.
    pub(crate) fn open(&self, key: &ProxyKey, stream: Stream, metadata: Arc<NodeMetadata>) -> Option<u64> {
        let mut state = self.state();
        if state.streams.get(key).is_some_and(|known| known.id > stream.id) {
            stream.close(Closing::ALREADY_EXISTS, REPLACED);
            return Some(stream.id);
        }
        let mut older = state.streams.insert(key.clone(), stream);
        if let Some(older) = &mut older {
            state.pushes.ended(&mut older.push, &self.enough);
            older.close(Closing::ALREADY_EXISTS, REPLACED);
        }
        let _ = self.events.send(ProxyEvent::Connected { key: key.clone(), metadata });
        older.map(|older| older.id)
    }

    /// The stream has ended. Returns whether it was the proxy's newest, so that the proxy is disconnected. `announce` sends
    /// the event.
    pub(crate) fn close(&self, key: &ProxyKey, id: u64, announce: bool) -> bool {
        let mut state = self.state();
        if state.streams.get(key).is_none_or(|stream| stream.id != id) {
            return false;
        }
        if let Some(mut ended) = state.streams.remove(key) {
            state.pushes.ended(&mut ended.push, &self.enough);
        }
        if announce {
            let _ = self.events.send(ProxyEvent::Disconnected { key: key.clone() });
        }
        true
    }

    /// `None` for a stream that is not the proxy's newest.
    pub(crate) fn report(&self, key: &ProxyKey, id: u64, report: &StreamReport<'_>) -> Option<Reported> {
        let mut state = self.state();
        let State { streams, pushes, .. } = &mut *state;
        let stream = streams.get_mut(key).filter(|stream| stream.id == id)?;
        if let Some(sent) = report.sent {
            pushes.sent(&mut stream.push, sent, &self.enough);
        }
        Some(stream.take(report))
    }

    /// `faults` are those of resources that are not in the snapshot, or not in their newest version.
    pub(crate) fn publish(&self, key: &ProxyKey, snapshot: Arc<Snapshot>, tokens: SnapshotTokens, faults: Vec<String>) {
        let mut state = self.state();
        let State { streams, pushes, .. } = &mut *state;
        let Some(stream) = streams.get_mut(key) else { return };
        stream.faults = faults;
        if stream.snapshots.borrow().as_ref().is_some_and(|known| known.revision == snapshot.revision) {
            return;
        }
        pushes.published(&mut stream.push, snapshot.revision);
        stream.rollout.published(snapshot.revision, tokens);
        stream.published.get_or_insert_with(Instant::now);
        stream.snapshots.send_replace(Some(snapshot));
    }

    pub(crate) fn is_connected(&self, key: &ProxyKey) -> bool {
        self.state().streams.contains_key(key)
    }

    pub(crate) fn keys(&self) -> BTreeSet<ProxyKey> {
        self.state().streams.keys().cloned().collect()
    }

    pub(crate) fn stream_of(&self, key: &ProxyKey) -> Option<u64> {
        self.state().streams.get(key).map(|stream| stream.id)
    }

    pub(crate) fn statuses(&self) -> Vec<ProxyStatus> {
        self.state().streams.iter().map(|(key, stream)| stream.status(key)).collect()
    }

    pub(crate) fn status(&self, key: &ProxyKey) -> Option<ProxyStatus> {
        self.state().streams.get(key).map(|stream| stream.status(key))
    }

    pub(crate) fn peer(&self, key: &ProxyKey) -> Option<SocketAddr> {
        self.state().streams.get(key).map(|stream| stream.peer)
    }

    pub(crate) fn snapshot(&self, key: &ProxyKey) -> Option<Arc<Snapshot>> {
        self.state().streams.get(key)?.snapshots.borrow().clone()
    }

    pub(crate) fn open_health(&self, key: &ProxyKey, stream: HealthStream) {
        let mut state = self.state();
        if state.health.get(key).is_some_and(|known| known.id > stream.id) {
            stream.close(Closing::ALREADY_EXISTS, REPLACED);
        } else if let Some(older) = state.health.insert(key.clone(), stream) {
            older.close(Closing::ALREADY_EXISTS, REPLACED);
        }
    }

    pub(crate) fn close_health(&self, key: &ProxyKey, id: u64) {
        let mut state = self.state();
        if state.health.get(key).is_some_and(|stream| stream.id == id) {
            state.health.remove(key);
        }
    }

    pub(crate) fn open_load(&self, key: &ProxyKey, stream: LoadStream) {
        let mut state = self.state();
        if state.load.get(key).is_some_and(|known| known.id > stream.id) {
            stream.close(Closing::ALREADY_EXISTS, REPLACED);
        } else if let Some(older) = state.load.insert(key.clone(), stream) {
            older.close(Closing::ALREADY_EXISTS, REPLACED);
        }
    }

    pub(crate) fn close_load(&self, key: &ProxyKey, id: u64) {
        let mut state = self.state();
        if state.load.get(key).is_some_and(|stream| stream.id == id) {
            state.load.remove(key);
        }
    }

    /// The proxy has acknowledged new configuration: it may have new clusters to report.
    pub(crate) fn configured(&self, key: &ProxyKey) {
        if let Some(stream) = self.state().load.get(key) {
            stream.configured.send_replace(());
        }
    }

    pub(crate) fn has_health(&self, key: &ProxyKey) -> bool {
        self.state().health.contains_key(key)
    }

    /// Sends the health checks of the Dataplane at this revision of the store. False when a newer one was sent already, or
    /// there is no stream.
    pub(crate) fn send_checks(
        &self,
        key: &ProxyKey,
        revision: u64,
        checks: impl FnOnce(&NodeMetadata) -> Option<HealthCheckSpecifier>,
    ) -> Option<bool> {
        self.state().health.get_mut(key)?.send(revision, checks)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
