//! Metrics of the control plane, for Prometheus: the registry, the text exposition, and a typed handle for each part.
//!
//! A part that counts gets its handle alone ([`ApiMetrics`], [`StoreMetrics`], [`XdsMetrics`], [`ListenerMetrics`],
//! [`MeshMetrics`]) and implements its own observer trait for it, if it has one. `/metrics` gets [`Metrics`].
//!
//! **Invariant:** names, labels and help texts of metrics are in this crate alone, and a test lists all names.
//! **Invariant:** uses no other crate of ours, so every other may use it.

mod api;
mod listeners;
mod meshes;
mod store;
mod xds;

use std::sync::{Arc, Mutex, PoisonError};

use prometheus_client::{encoding::text::encode, registry::Registry};

pub use api::ApiMetrics;
pub use listeners::{ListenerMetrics, Listeners};
pub use meshes::MeshMetrics;
pub use store::StoreMetrics;
pub use xds::XdsMetrics;

/// All metrics of a control plane. Cheap to clone; all clones count together.
#[derive(Clone)]
pub struct Metrics {
    pub api: ApiMetrics,
    pub store: StoreMetrics,
    pub xds: XdsMetrics,
    pub meshes: MeshMetrics,
    pub listeners: Listeners,
    registry: Arc<Mutex<Registry>>,
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl Metrics {
    pub fn new() -> Self {
        let (api, store, xds, meshes, listeners) = (
            ApiMetrics::new(),
            StoreMetrics::new(),
            XdsMetrics::default(),
            MeshMetrics::default(),
            Listeners::default(),
        );
        let mut registry = Registry::with_prefix("kodiak");
        api.register(&mut registry);
        store.register(&mut registry);
        xds.register(&mut registry);
        meshes.register(&mut registry);
        listeners.register(&mut registry);
        Self { api, store, xds, meshes, listeners, registry: Arc::new(Mutex::new(registry)) }
    }

    /// Text exposition, as Prometheus reads it.
    pub fn scrape(&self) -> String {
        let mut text = String::new();
        let registry = self.registry.lock().unwrap_or_else(PoisonError::into_inner);
        encode(&mut text, &registry).expect("writing to a string does not fail");
        text
    }
}

/// A count as a gauge takes it.
fn gauge(count: impl TryInto<i64>) -> i64 {
    count.try_into().unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// Dashboards and alerts of users depend on every one of them.
    const NAMES: [&str; 25] = [
        "kodiak_api_request_seconds histogram",
        "kodiak_api_requests counter",
        "kodiak_certificate_expiry_seconds gauge",
        "kodiak_connections gauge",
        "kodiak_connections_refused counter",
        "kodiak_mtls_step_waiting_proxies gauge",
        "kodiak_quarantined_resources gauge",
        "kodiak_resources gauge",
        "kodiak_store_commit_changes counter",
        "kodiak_store_commit_failures counter",
        "kodiak_store_commit_requests counter",
        "kodiak_store_commit_seconds histogram",
        "kodiak_store_commits counter",
        "kodiak_store_revision gauge",
        "kodiak_traffic_dropped_observations gauge",
        "kodiak_traffic_edges gauge",
        "kodiak_traffic_reports counter",
        "kodiak_unreadable_resources gauge",
        "kodiak_xds_engine_rounds counter",
        "kodiak_xds_proxies gauge",
        "kodiak_xds_proxies_woken counter",
        "kodiak_xds_resources_encoded counter",
        "kodiak_xds_responses_rejected counter",
        "kodiak_xds_sent_bytes counter",
        "kodiak_xds_streams_refused counter",
    ];

    /// With a sample of every family: those without one are not shown.
    fn counted() -> Metrics {
        let metrics = Metrics::new();
        metrics.api.answered("GET", "/meshes", 200, Duration::from_millis(1));
        metrics.store.committed(3, 2, Duration::from_millis(1));
        metrics.store.contents(7, [("Mesh", 1)]);
        metrics.xds.generated(5, 4);
        metrics.meshes.certificates([("demo", "leaf", 60)]);
        metrics.meshes.mtls_waiting([("demo", 2)]);
        metrics.listeners.of("api-http").refused("evicted");
        metrics
    }

    #[test]
    fn all_metrics_keep_their_names_and_types() {
        let text = counted().scrape();
        let mut names: Vec<_> = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")).collect();
        names.sort_unstable();
        assert_eq!(names, NAMES);
    }

    #[test]
    fn samples_keep_their_labels() {
        let text = counted().scrape();
        for sample in [
            r#"kodiak_api_requests_total{method="GET",route="/meshes",code="200"} 1"#,
            r#"kodiak_api_request_seconds_count{method="GET",route="/meshes"} 1"#,
            "kodiak_store_commit_requests_total 3",
            "kodiak_store_commit_changes_total 2",
            r#"kodiak_resources{kind="Mesh"} 1"#,
            "kodiak_store_revision 7",
            "kodiak_xds_engine_rounds_total 1",
            "kodiak_xds_resources_encoded_total 5",
            "kodiak_xds_proxies_woken_total 4",
            r#"kodiak_certificate_expiry_seconds{mesh="demo",kind="leaf"} 60"#,
            r#"kodiak_mtls_step_waiting_proxies{mesh="demo"} 2"#,
            r#"kodiak_connections{listener="api-http"} 0"#,
            r#"kodiak_connections_refused_total{listener="api-http",reason="evicted"} 1"#,
        ] {
            assert!(text.lines().any(|line| line == sample), "{sample} is not in:\n{text}");
        }
    }

    #[test]
    fn families_that_are_set_as_a_whole_forget_what_is_gone() {
        let metrics = counted();
        metrics.store.contents(8, [("Dataplane", 1)]);
        metrics.meshes.certificates(std::iter::empty());
        metrics.meshes.mtls_waiting(std::iter::empty::<(String, usize)>());
        let text = metrics.scrape();
        assert!(text.contains(r#"kind="Dataplane""#), "{text}");
        for gone in [r#"kind="Mesh""#, r#"mesh="demo""#] {
            assert!(!text.contains(gone), "{gone} is still in:\n{text}");
        }
    }
}
