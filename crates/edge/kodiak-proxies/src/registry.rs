//! Who is connected, and what the rest of the control plane tells and asks about them.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use jiff::Timestamp;
use kodiak_ads::{Closing, StreamReport};
use kodiak_catalog::Catalog;
use kodiak_model::{ProxyKey, kinds::dataplane_insight::MtlsInsight};
use kodiak_xds::node::NodeMetadata;
use kodiak_xds_stream::Snapshot;
use tokio::sync::{Notify, RwLock, mpsc};
use tokio_util::sync::CancellationToken;

use crate::{
    health::HealthStream,
    insights::leader::Seen,
    insights::observation::{Due, Observation},
    readiness::InboundReadiness,
    registrations::Departure,
    sessions::status::ProxyStatus,
    sessions::stream::Stream,
    settings::{Authn, Settings},
};

/// The proxies of this control plane. Cheap to clone; all clones speak of the same ones.
#[derive(Clone)]
pub struct Registry(pub(crate) Arc<Inner>);

/// What whoever makes configuration must know. `Connected` is answered by [`Registry::publish`].
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

pub(crate) struct Inner {
    pub(crate) catalog: Catalog,
    pub(crate) settings: Settings,
    events: mpsc::UnboundedSender<ProxyEvent>,
    state: Mutex<State>,
    /// Something is to be written at once.
    pub(crate) nudge: Notify,
    /// Held for reading while a proxy connects, for writing while Dataplanes of proxies that left are deleted: none is
    /// deleted under a proxy that is just coming back.
    pub(crate) registering: RwLock<()>,
    pub(crate) seen: Mutex<Seen>,
    pub(crate) readiness: InboundReadiness,
    stopping: AtomicBool,
    /// Also cancelled when this control plane ends, maybe before anybody says so.
    pub(crate) drain: OnceLock<CancellationToken>,
}

#[derive(Default)]
pub(crate) struct State {
    pub(crate) streams: BTreeMap<ProxyKey, Stream>,
    pub(crate) health: BTreeMap<ProxyKey, HealthStream>,
    /// By the id of their stream, so the older ones of a proxy come first.
    pub(crate) observations: BTreeMap<u64, Observation>,
    pub(crate) departures: Vec<Departure>,
    /// Whose Dataplane was brought by the proxy itself.
    pub(crate) brought: BTreeSet<ProxyKey>,
    /// The last one whose token was verified again by the timer.
    pub(crate) rechecked: Option<ProxyKey>,
    last_id: u64,
}

impl Registry {
    pub fn new(catalog: Catalog, settings: Settings, events: mpsc::UnboundedSender<ProxyEvent>) -> Self {
        if settings.authn == Authn::None {
            tracing::warn!("Proxies are not asked for tokens: whoever reaches the port can be any of them.");
        }
        let readiness = InboundReadiness::new(catalog.store().clone(), settings.health.is_some());
        Self(Arc::new(Inner {
            catalog,
            settings,
            events,
            state: Mutex::default(),
            nudge: Notify::new(),
            registering: RwLock::default(),
            seen: Mutex::default(),
            readiness,
            stopping: AtomicBool::new(false),
            drain: OnceLock::new(),
        }))
    }

    /// What the proxy should have. `token` names the step of a rollout that it belongs to; revisions grow, and one has
    /// one token. The insight tells which token was acknowledged last.
    pub fn publish(&self, key: &ProxyKey, snapshot: Arc<Snapshot>, token: Arc<str>) {
        let mut state = self.state();
        let Some(stream) = state.streams.get_mut(key) else { return };
        stream.rollout.published(snapshot.revision, token);
        stream.faults.clear();
        stream.snapshots.send_replace(Some(snapshot));
    }

    /// What it should have is not fit to be sent. It keeps what it has; a stream on which nothing was said yet is told
    /// so and closed, because silence would tell nobody.
    pub fn fault(&self, key: &ProxyKey, faults: Vec<String>) {
        if let Some(stream) = self.state().streams.get_mut(key) {
            if stream.snapshots.borrow().is_none() {
                let reason = format!("what this proxy should have is not fit to be sent: {}", faults.join("; "));
                stream.close(Closing::FAILED_PRECONDITION, &reason);
            }
            stream.faults = faults;
        }
    }

    /// Which certificate the proxy has. `acknowledged` is not taken from here.
    pub fn issued(&self, key: &ProxyKey, certificate: MtlsInsight) {
        let mut state = self.state();
        let State { streams, observations, .. } = &mut *state;
        let observation = streams.get(key).and_then(|stream| observations.get_mut(&stream.id));
        if let Some(observation) = observation.filter(|known| known.certificate.as_ref() != Some(&certificate)) {
            observation.certificate = Some(certificate);
            observation.change(Due::Later);
        }
    }

    pub fn connected(&self) -> Vec<ProxyStatus> {
        self.state().streams.iter().map(|(key, stream)| stream.status(key)).collect()
    }

    pub fn status(&self, key: &ProxyKey) -> Option<ProxyStatus> {
        self.state().streams.get(key).map(|stream| stream.status(key))
    }

    pub fn snapshot(&self, key: &ProxyKey) -> Option<Arc<Snapshot>> {
        self.state().streams.get(key)?.snapshots.borrow().clone()
    }

    /// This control plane ends: its proxies will be back, here or elsewhere, so their leaving means nothing from now
    /// on. To be called before their streams are closed, unless the drain of [`Registry::run`] is cancelled by then.
    pub fn stop(&self) {
        self.0.stopping.store(true, Ordering::SeqCst);
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.0.stopping.load(Ordering::SeqCst) || self.0.drain.get().is_some_and(CancellationToken::is_cancelled)
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn now(&self) -> Timestamp {
        (self.0.settings.now)()
    }

    /// The stream is the proxy's from now on; an older one has to go.
    pub(crate) fn arrived(&self, stream: Stream, observation: Observation, metadata: Arc<NodeMetadata>) {
        let key = observation.key.clone();
        self.0.readiness.connected(&key, stream.id);
        let mut state = self.state();
        if stream.from_metadata {
            state.brought.insert(key.clone());
        }
        state.departures.retain(|departure| departure.key != key);
        let (id, connected) = (stream.id, stream.connected);
        if let Some(older) = state.streams.insert(key.clone(), stream) {
            older.close(Closing::ALREADY_EXISTS, "a newer connection of this proxy took over");
            state.close_observation(older.id, connected);
        }
        state.observations.insert(id, observation);
        let count = state.streams.len();
        // Sent under the lock, so that events have the order of what they tell.
        let _ = self.0.events.send(ProxyEvent::Connected { key, metadata });
        drop(state);
        self.observe_count(count);
        self.0.nudge.notify_one();
    }

    pub(crate) fn reported(&self, key: &ProxyKey, id: u64, report: &StreamReport<'_>) {
        let now = self.now();
        let mut state = self.state();
        let State { streams, observations, .. } = &mut *state;
        let Some(stream) = streams.get_mut(key).filter(|stream| stream.id == id) else { return };
        let reported = stream.take(report);
        if let Some(observation) = observations.get_mut(&id) {
            if reported.counters {
                observation.count(&stream.types, now);
                observation.change(Due::Later);
            }
            if let Some(rejecting) = reported.rejecting.filter(|rejecting| *rejecting != observation.rejecting) {
                observation.rejecting = rejecting;
                observation.change(Due::Now);
                self.0.nudge.notify_one();
            }
            if reported.acknowledged.is_some() && observation.acknowledged != reported.acknowledged {
                observation.acknowledged.clone_from(&reported.acknowledged);
                observation.change(Due::Now);
                self.0.nudge.notify_one();
            }
        }
        drop(state);
        if reported.is_first {
            self.0.readiness.acknowledged(key, id);
        }
        for (type_url, counters) in &report.counters {
            if reported.rejected.iter().any(|(rejected, count)| rejected == type_url && *count > 0) {
                let reason = counters.last_error.as_deref().unwrap_or_default();
                tracing::warn!(proxy = %key, kind = ?type_url, reason, "A proxy has rejected what it was sent.");
            }
        }
        if let Some(observer) = &self.0.settings.observer {
            if report.bytes > 0 {
                observer.sent(report.bytes);
            }
            for (type_url, count) in reported.rejected.into_iter().filter(|(_, count)| *count > 0) {
                observer.rejected(type_url, count);
            }
        }
    }

    /// A stream has ended. If it was the proxy's last, the proxy has left.
    pub(crate) fn left(&self, key: &ProxyKey, id: u64) {
        let now = self.now();
        let mut state = self.state();
        if state.streams.get(key).is_none_or(|stream| stream.id != id) {
            return;
        }
        state.streams.remove(key);
        let count = state.streams.len();
        if !self.is_stopping() {
            state.close_observation(id, now);
            if state.brought.contains(key) {
                let delay = self.0.settings.deregistration_delay;
                state.departures.push(Departure::after(key.clone(), delay));
            }
            let _ = self.0.events.send(ProxyEvent::Disconnected { key: key.clone() });
        }
        drop(state);
        self.observe_count(count);
        self.0.nudge.notify_one();
    }

    fn observe_count(&self, count: usize) {
        if let Some(observer) = &self.0.settings.observer {
            observer.connected(count);
        }
    }
}

impl State {
    pub(crate) fn next_id(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id
    }

    fn close_observation(&mut self, id: u64, now: Timestamp) {
        if let Some(observation) = self.observations.get_mut(&id) {
            observation.subscription.disconnect_time = Some(now.to_string());
            observation.change(Due::Now);
        }
    }
}
