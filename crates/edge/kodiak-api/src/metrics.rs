//! What is counted, for Prometheus.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use axum::http::{Method, StatusCode};
use kodiak_listen::ConnectionObserver;
use kodiak_store::{Observer, Snapshot};
use prometheus_client::{
    encoding::{EncodeLabelSet, text::encode},
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram},
    registry::Registry,
};

use crate::listeners::Listeners;

/// Made once and handed to whoever counts. Cheap to clone.
#[derive(Clone)]
pub struct Metrics {
    registry: Arc<Mutex<Registry>>,
    requests: Family<RequestLabels, Counter>,
    request_seconds: Family<RouteLabels, Histogram>,
    commits: Counter,
    commit_requests: Counter,
    commit_changes: Counter,
    commit_failures: Counter,
    commit_seconds: Histogram,
    resources: Family<KindLabels, Gauge>,
    revision: Gauge,
    encoded: Counter,
    woken: Counter,
    proxies: Gauge,
    quarantined: Gauge,
    refused: Counter,
    rejected: Counter,
    bytes: Counter,
    certificates: Family<CertificateLabels, Gauge>,
    mtls_waiting: Family<MeshLabels, Gauge>,
    listeners: Listeners,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct RequestLabels {
    method: String,
    route: String,
    code: u16,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct RouteLabels {
    method: String,
    route: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct CertificateLabels {
    mesh: String,
    kind: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct KindLabels {
    kind: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct MeshLabels {
    mesh: String,
}

fn seconds() -> Histogram {
    Histogram::new([0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0])
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl Metrics {
    pub fn new() -> Self {
        let metrics = Self {
            registry: Arc::default(),
            requests: Family::default(),
            request_seconds: Family::new_with_constructor(seconds),
            commits: Counter::default(),
            commit_requests: Counter::default(),
            commit_changes: Counter::default(),
            commit_failures: Counter::default(),
            commit_seconds: seconds(),
            resources: Family::default(),
            revision: Gauge::default(),
            encoded: Counter::default(),
            woken: Counter::default(),
            proxies: Gauge::default(),
            quarantined: Gauge::default(),
            refused: Counter::default(),
            rejected: Counter::default(),
            bytes: Counter::default(),
            certificates: Family::default(),
            mtls_waiting: Family::default(),
            listeners: Listeners::default(),
        };
        let mut registry = Registry::with_prefix("kodiak");
        registry.register("api_requests", "Requests answered by the API", metrics.requests.clone());
        registry.register("api_request_seconds", "Time to answer a request", metrics.request_seconds.clone());
        registry.register("store_commits", "Durable writes of the store", metrics.commits.clone());
        registry.register(
            "store_commit_requests",
            "Requests answered by durable writes",
            metrics.commit_requests.clone(),
        );
        registry.register("store_commit_changes", "Changes made durable", metrics.commit_changes.clone());
        registry.register("store_commit_failures", "Durable writes that failed", metrics.commit_failures.clone());
        registry.register("store_commit_seconds", "Time of a durable write", metrics.commit_seconds.clone());
        registry.register("resources", "Stored resources by kind", metrics.resources.clone());
        registry.register("store_revision", "Revision of the store", metrics.revision.clone());
        registry.register("xds_resources_encoded", "Envoy resources built and encoded", metrics.encoded.clone());
        registry.register("xds_proxies_woken", "Times that a proxy was given another set", metrics.woken.clone());
        registry.register("xds_proxies", "Proxies that are connected", metrics.proxies.clone());
        registry.register(
            "quarantined_resources",
            "Stored resources that are ignored because they made the control plane panic",
            metrics.quarantined.clone(),
        );
        registry.register("xds_streams_refused", "Streams that were not let in", metrics.refused.clone());
        registry.register("xds_responses_rejected", "Responses that a proxy rejected", metrics.rejected.clone());
        registry.register("xds_sent_bytes", "Bytes put on the wire to proxies", metrics.bytes.clone());
        registry.register(
            "certificate_expiry_seconds",
            "Time until the first certificate in use expires",
            metrics.certificates.clone(),
        );
        registry.register(
            "mtls_step_waiting_proxies",
            "Proxies that the next step of mTLS waits for, by mesh",
            metrics.mtls_waiting.clone(),
        );
        metrics.listeners.register(&mut registry);
        *metrics.registry.lock().unwrap_or_else(PoisonError::into_inner) = registry;
        metrics
    }

    pub(crate) fn answered(&self, method: &Method, route: &str, status: StatusCode, took: Duration) {
        let (method, route) = (method.to_string(), route.to_owned());
        let labels = RequestLabels { method: method.clone(), route: route.clone(), code: status.as_u16() };
        self.requests.get_or_create(&labels).inc();
        self.request_seconds.get_or_create(&RouteLabels { method, route }).observe(took.as_secs_f64());
    }

    /// Counts the connections of a port.
    pub fn listener(&self, listener: &'static str) -> Arc<dyn ConnectionObserver> {
        self.listeners.observer(listener)
    }

    /// A batch of changes was worked out for all proxies.
    pub fn generated(&self, encoded: u64, woken: u64) {
        self.encoded.inc_by(encoded);
        self.woken.inc_by(woken);
    }

    pub fn proxies_connected(&self, count: usize) {
        self.proxies.set(i64::try_from(count).unwrap_or(i64::MAX));
    }

    pub fn resources_quarantined(&self, count: usize) {
        self.quarantined.set(i64::try_from(count).unwrap_or(i64::MAX));
    }

    /// Certificates in use: the mesh, `leaf` or `ca`, and the seconds until the first of them expires.
    pub fn certificates<'a>(&self, first: impl Iterator<Item = (&'a str, &'static str, i64)>) {
        self.certificates.clear();
        for (mesh, kind, seconds) in first {
            let labels = CertificateLabels { mesh: mesh.to_owned(), kind: kind.to_owned() };
            self.certificates.get_or_create(&labels).set(seconds);
        }
    }

    pub fn stream_refused(&self) {
        self.refused.inc();
    }

    pub fn responses_rejected(&self, count: u64) {
        self.rejected.inc_by(count);
    }

    pub fn bytes_sent(&self, bytes: u64) {
        self.bytes.inc_by(bytes);
    }

    /// For how many proxies the next step of mTLS waits, by mesh. Meshes that wait for nobody are not there.
    pub fn mtls_waiting(&self, meshes: impl IntoIterator<Item = (String, usize)>) {
        self.mtls_waiting.clear();
        for (mesh, count) in meshes {
            self.mtls_waiting.get_or_create(&MeshLabels { mesh }).set(i64::try_from(count).unwrap_or(i64::MAX));
        }
    }

    /// The text that Prometheus reads.
    pub fn scrape(&self, snapshot: &Snapshot) -> String {
        self.resources.clear();
        for (kind, count) in snapshot.counts() {
            let labels = KindLabels { kind: kind.to_string() };
            self.resources.get_or_create(&labels).set(i64::try_from(count).unwrap_or(i64::MAX));
        }
        self.revision.set(i64::try_from(snapshot.revision()).unwrap_or(i64::MAX));
        let mut text = String::new();
        let registry = self.registry.lock().unwrap_or_else(PoisonError::into_inner);
        encode(&mut text, &registry).expect("writing to a string does not fail");
        text
    }
}

impl Observer for Metrics {
    fn committed(&self, requests: usize, changes: usize, took: Duration) {
        self.commits.inc();
        self.commit_requests.inc_by(requests as u64);
        self.commit_changes.inc_by(changes as u64);
        self.commit_seconds.observe(took.as_secs_f64());
    }

    fn failed(&self) {
        self.commit_failures.inc();
    }
}
