//! Metrics of the control plane, for Prometheus: the registry, the text exposition, and a typed handle for each part.
//!
//! A part that counts gets its handle alone ([`ApiMetrics`], [`StoreMetrics`], [`XdsMetrics`], [`ListenerMetrics`],
//! [`MeshMetrics`], [`ProxyPortMetrics`]) and implements its own observer trait for it, if it has one. `/metrics` gets
//! [`Metrics`]. `kuma` shows the same observations under the names that Kuma's dashboards use.
//!
//! **Invariant:** names, labels and help texts of metrics are in this crate alone, and a test lists all names.
//! **Invariant:** uses no other crate of ours, so every other may use it.

mod api;
mod kuma;
mod listeners;
mod meshes;
mod proxy_port;
mod store;
mod summary;
mod xds;

use std::sync::{Arc, Mutex, PoisonError};

use prometheus_client::{
    encoding::text::{encode_eof, encode_registry},
    registry::Registry,
};

pub use api::{ApiMetrics, InFlight};
pub use kuma::ControlPlaneInfo;
pub use listeners::{ListenerMetrics, Listeners};
pub use meshes::MeshMetrics;
pub use proxy_port::ProxyPortMetrics;
pub use store::StoreMetrics;
pub use xds::{Exchanged, XdsMetrics};

use kuma::KumaNames;

/// All metrics of a control plane. Cheap to clone; all clones count together.
#[derive(Clone)]
pub struct Metrics {
    pub api: ApiMetrics,
    pub store: StoreMetrics,
    pub xds: XdsMetrics,
    pub meshes: MeshMetrics,
    pub listeners: Listeners,
    pub proxy_port: ProxyPortMetrics,
    registry: Arc<Mutex<Registry>>,
    kuma: Option<KumaNames>,
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl Metrics {
    pub fn new() -> Self {
        let (api, store, xds, meshes, listeners) =
            (ApiMetrics::new(), StoreMetrics::new(), XdsMetrics::new(), MeshMetrics::default(), Listeners::default());
        let mut registry = Registry::with_prefix("kodiak");
        api.register(&mut registry);
        store.register(&mut registry);
        xds.register(&mut registry);
        meshes.register(&mut registry);
        listeners.register(&mut registry);
        let (proxy_port, registry) = (ProxyPortMetrics::new(), Arc::new(Mutex::new(registry)));
        Self { api, store, xds, meshes, listeners, proxy_port, registry, kuma: None }
    }

    /// Shows the names that Kuma's dashboards use, too.
    pub fn with_kuma_names(mut self, zone: &str, info: &ControlPlaneInfo) -> Self {
        self.kuma = Some(KumaNames::new(&self, zone, info));
        self
    }

    /// Whether this control plane is the leader.
    pub fn leads(&self, leads: bool) {
        if let Some(kuma) = &self.kuma {
            kuma.leads(leads);
        }
    }

    /// Text exposition, as Prometheus reads it.
    pub fn scrape(&self) -> String {
        let mut text = String::new();
        let registry = self.registry.lock().unwrap_or_else(PoisonError::into_inner);
        encode_registry(&mut text, &registry).expect("writing to a string does not fail");
        if let Some(kuma) = &self.kuma {
            kuma.encode(&mut text);
        }
        encode_eof(&mut text).expect("writing to a string does not fail");
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
    const NAMES: [&str; 28] = [
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
        "kodiak_xds_delivery_seconds histogram",
        "kodiak_xds_engine_round_seconds histogram",
        "kodiak_xds_engine_rounds counter",
        "kodiak_xds_invalid_snapshots counter",
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
        metrics.xds.generated(5, 4, Duration::from_millis(1));
        metrics.meshes.certificates([("demo", "leaf", 60)]);
        metrics.meshes.mtls_waiting([("demo", 2)]);
        metrics.listeners.of("api-http").refused("evicted");
        metrics
    }

    /// Kuma's dashboards depend on them.
    const KUMA_NAMES: [&str; 16] = [
        "api_server_http_request_duration_seconds histogram",
        "api_server_http_requests_inflight gauge",
        "cp_info gauge",
        "dp_server_http_request_duration_seconds histogram",
        "dp_server_http_response_size_bytes histogram",
        "hds_requests_received unknown",
        "hds_responses_sent unknown",
        "hds_streams_active gauge",
        "leader gauge",
        "resources_count gauge",
        "store histogram",
        "xds_delivery summary",
        "xds_generation summary",
        "xds_generation_errors unknown",
        "xds_requests_received unknown",
        "xds_responses_sent unknown",
    ];

    #[test]
    fn kuma_names_are_shown_beside_ours_with_their_labels() {
        let metrics = counted().with_kuma_names("east", &vec![("version", "1.2.3".to_owned())]);
        metrics.leads(true);
        metrics.proxy_port.answered("/bootstrap", 200, 5000, Duration::from_millis(2));
        let exchanged = Exchanged { sent: 3, acknowledged: 2, rejected: 1 };
        metrics.xds.exchanged("type.googleapis.com/envoy.config.cluster.v3.Cluster", exchanged);
        metrics.xds.delivered(Duration::from_millis(4));
        metrics.xds.snapshot_invalid();
        let (_running, text) = (metrics.api.begun("/meshes"), metrics.scrape());
        let mut names: Vec<_> = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")).collect();
        names.retain(|name| !name.starts_with("kodiak_"));
        names.sort_unstable();
        // A gauge of its own: no stream is counted twice.
        let mut expected = [&KUMA_NAMES[..], &["xds_streams_active gauge"]].concat();
        expected.sort_unstable();
        assert_eq!(names, expected);
        for sample in [
            r#"cp_info{zone="east",version="1.2.3"} 1"#,
            r#"leader{zone="east"} 1"#,
            r#"xds_responses_sent{zone="east",type_url="type.googleapis.com/envoy.config.cluster.v3.Cluster"} 3"#,
            r#"xds_requests_received{zone="east",type_url="type.googleapis.com/envoy.config.cluster.v3.Cluster",confirmation="ACK"} 2"#,
            r#"xds_requests_received{zone="east",type_url="type.googleapis.com/envoy.config.cluster.v3.Cluster",confirmation="NACK"} 1"#,
            r#"xds_generation{zone="east",quantile="0.99"} 1"#,
            r#"xds_generation_count{zone="east"} 1"#,
            r#"xds_generation_errors{zone="east"} 1"#,
            r#"xds_delivery{zone="east",quantile="0.99"} 4"#,
            r#"resources_count{zone="east",resource_type="Mesh"} 1"#,
            r#"store_count{zone="east",operation="commit"} 1"#,
            r#"api_server_http_request_duration_seconds_count{zone="east",handler="/meshes",method="GET",code="200"} 1"#,
            r#"api_server_http_requests_inflight{zone="east",handler="/meshes"} 1"#,
            r#"dp_server_http_response_size_bytes_count{zone="east",handler="/bootstrap",method="POST",code="200"} 1"#,
            "# EOF",
        ] {
            assert!(text.lines().any(|line| line == sample), "{sample} is not in:\n{text}");
        }
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
