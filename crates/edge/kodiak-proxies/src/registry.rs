//! The proxies of this control plane, as its other parts see them.

use std::{
    net::SocketAddr,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use jiff::Timestamp;
use kodiak_ads::StreamReport;
use kodiak_catalog::Catalog;
use kodiak_listen::printable;
use kodiak_metrics::Exchanged;
use kodiak_model::{ProxyKey, kinds::dataplane_insight::MtlsInsight};
use kodiak_store::Leader;
use kodiak_xds::node::NodeMetadata;
use kodiak_xds_stream::Snapshot;
use tokio::{sync::mpsc, time::Instant};
use tokio_util::sync::CancellationToken;

use crate::{
    insights::{InsightWriter, Observation},
    readiness::InboundReadiness,
    registrations::Registrations,
    sessions::{ProxyEvent, ProxyStatus, Reported, Sessions, SnapshotTokens, Stream},
    settings::{Authn, ProxySettings},
    traffic::TrafficRecorder,
};

/// The proxies of this control plane. Cheap to clone; all clones share one state.
///
/// It connects five parts, each with a lock of its own, and calls one after the other: no lock is held across another.
#[derive(Clone)]
pub struct Registry(pub(crate) Arc<Inner>);

pub(crate) struct Inner {
    pub(crate) catalog: Catalog,
    pub(crate) settings: Arc<ProxySettings>,
    pub(crate) sessions: Sessions,
    pub(crate) insights: InsightWriter,
    pub(crate) readiness: InboundReadiness,
    pub(crate) registrations: Registrations,
    pub(crate) traffic: TrafficRecorder,
    stopping: AtomicBool,
    /// Also cancelled when this control plane ends, maybe before [`Registry::stop`].
    pub(crate) drain: OnceLock<CancellationToken>,
}

impl Registry {
    pub fn new(catalog: Catalog, settings: ProxySettings, events: mpsc::UnboundedSender<ProxyEvent>) -> Self {
        if settings.authn == Authn::None {
            tracing::warn!("proxy authentication is disabled: anybody who reaches the port can connect as any proxy");
        }
        let (store, settings) = (catalog.store(), Arc::new(settings));
        Self(Arc::new(Inner {
            sessions: Sessions::new(events),
            insights: InsightWriter::new(store.clone(), settings.clone()),
            readiness: InboundReadiness::new(store.clone(), settings.health.is_some()),
            registrations: Registrations::new(settings.deregistration_delay),
            traffic: TrafficRecorder::new(store.clone(), settings.clone()),
            stopping: AtomicBool::new(false),
            drain: OnceLock::new(),
            catalog,
            settings,
        }))
    }

    /// Sends the proxy a snapshot. `tokens` name the step of a rollout that it belongs to, and its permissions; revisions
    /// grow, and the tokens of one do not change. The insight shows which were acknowledged last. `faults` are those of resources that failed validation:
    /// the snapshot has older versions of them, or does not have them.
    pub fn publish(&self, key: &ProxyKey, snapshot: Arc<Snapshot>, tokens: SnapshotTokens, faults: Vec<String>) {
        self.0.sessions.publish(key, snapshot, tokens, faults);
    }

    /// Snapshots for this many proxies will be published now.
    pub fn begin_pushes(&self, proxies: usize) {
        self.0.sessions.begin_pushes(proxies);
    }

    /// Waits until most streams have sent what was published to them. To gather changes meanwhile.
    pub async fn pushed(&self) {
        self.0.sessions.pushed().await;
    }

    /// Whether [`Self::pushed`] would return at once.
    pub fn has_pushed(&self) -> bool {
        self.0.sessions.has_pushed()
    }

    /// Streams that still send are slow, and not waited for until they have caught up.
    pub fn give_up_pushes(&self) {
        self.0.sessions.give_up_pushes();
    }

    /// The certificate that the proxy has. `acknowledged` is not taken from here.
    pub fn issued(&self, key: &ProxyKey, certificate: MtlsInsight) {
        if let Some(stream) = self.0.sessions.stream_of(key) {
            self.0.insights.issued(stream, certificate, self.now());
        }
    }

    pub fn connected(&self) -> Vec<ProxyStatus> {
        self.0.sessions.statuses()
    }

    pub fn status(&self, key: &ProxyKey) -> Option<ProxyStatus> {
        self.0.sessions.status(key)
    }

    /// Address from which the ADS stream of the proxy comes, if it is connected to this control plane.
    pub fn peer(&self, key: &ProxyKey) -> Option<SocketAddr> {
        self.0.sessions.peer(key)
    }

    pub fn snapshot(&self, key: &ProxyKey) -> Option<Arc<Snapshot>> {
        self.0.sessions.snapshot(key)
    }

    /// Closes, in insights, connections that show no sign of life, and returns how many proxies that concerns. Only for the
    /// leader: others do not know what it has seen.
    pub async fn finalize_once(&self, leader: &Leader, now: Timestamp) -> usize {
        let connected = self.0.sessions.keys();
        self.0.insights.close_lost(leader, now, &connected).await
    }

    /// Closes, in insights, connections to control planes that died, once `grace` has passed in which the proxy could come
    /// back. `lost` says since when an instance is dead. Returns how many proxies that concerns, and when the next one is
    /// due. Only for the leader.
    pub async fn close_abandoned(
        &self,
        leader: &Leader,
        grace: Duration,
        lost: impl Fn(&str) -> Option<Instant>,
    ) -> (usize, Option<Instant>) {
        self.0.insights.close_abandoned(leader, grace, lost).await
    }

    /// This control plane ends: its proxies will be back, here or elsewhere, so their leaving means nothing from now
    /// on. To be called before their streams are closed, unless the drain of [`Registry::run`] is cancelled by then.
    pub fn stop(&self) {
        self.0.stopping.store(true, Ordering::SeqCst);
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.0.stopping.load(Ordering::SeqCst) || self.0.drain.get().is_some_and(CancellationToken::is_cancelled)
    }

    pub(crate) fn now(&self) -> Timestamp {
        (self.0.settings.now)()
    }

    /// The stream is the proxy's newest; an older one is closed.
    pub(crate) fn opened(&self, key: &ProxyKey, stream: Stream, observation: Observation, metadata: Arc<NodeMetadata>) {
        let (id, connected, from_metadata) = (stream.id, stream.connected, stream.from_metadata);
        // Before the stream can be replaced, which closes its observation.
        self.0.insights.opened(id, observation);
        self.0.readiness.connected(key, id);
        let replaced = self.0.sessions.open(key, stream, metadata);
        self.0.registrations.connected(key, from_metadata);
        if let Some(replaced) = replaced {
            self.0.insights.closed(replaced, connected);
        } else if let Some(observer) = &self.0.settings.observer {
            observer.connected();
        }
    }

    pub(crate) fn reported(&self, key: &ProxyKey, id: u64, report: &StreamReport<'_>) {
        let Some(reported) = self.0.sessions.report(key, id, report) else { return };
        if reported.is_first {
            self.0.readiness.acknowledged(key, id);
        }
        self.0.insights.reported(id, &reported, self.now());
        if report.settled.is_some() {
            self.0.sessions.configured(key);
        }
        for (type_url, counters) in &report.counters {
            if reported.exchanged.iter().any(|(each, exchanged)| each == type_url && exchanged.rejected > 0) {
                let error = printable(counters.last_error.as_deref().unwrap_or_default());
                tracing::warn!(proxy = %key, kind = ?type_url, error, "proxy rejected its configuration (NACK)");
            }
        }
        self.observe_report(&reported, report.bytes);
    }

    fn observe_report(&self, reported: &Reported, bytes: u64) {
        let Some(observer) = &self.0.settings.observer else { return };
        if bytes > 0 {
            observer.sent(bytes);
        }
        for (type_url, exchanged) in &reported.exchanged {
            if *exchanged != Exchanged::default() {
                observer.exchanged(*type_url, *exchanged);
            }
        }
        if let Some(took) = reported.delivered {
            observer.delivered(took);
        }
    }

    /// The stream has ended. If it was the newest, the proxy is disconnected.
    pub(crate) fn disconnected(&self, key: &ProxyKey, id: u64, is_refused: bool) {
        let stopping = self.is_stopping();
        if !self.0.sessions.close(key, id, !stopping) {
            return;
        }
        if !stopping {
            self.0.insights.closed(id, self.now());
            self.0.registrations.disconnected(key);
            if is_refused {
                self.0.registrations.refused(key);
            }
        }
        if let Some(observer) = &self.0.settings.observer {
            observer.disconnected();
        }
    }
}
