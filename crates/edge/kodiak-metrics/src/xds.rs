//! Proxies, and the configuration that is sent to them.

use prometheus_client::{
    metrics::{counter::Counter, gauge::Gauge},
    registry::Registry,
};

use crate::gauge;

#[derive(Clone, Default)]
pub struct XdsMetrics {
    rounds: Counter,
    encoded: Counter,
    woken: Counter,
    proxies: Gauge,
    quarantined: Gauge,
    refused: Counter,
    rejected: Counter,
    bytes: Counter,
    load_reports: Counter,
    traffic_edges: Gauge,
    traffic_dropped: Gauge,
}

impl XdsMetrics {
    pub(crate) fn register(&self, registry: &mut Registry) {
        registry.register("xds_engine_rounds", "Batches of changes that the engine applied", self.rounds.clone());
        registry.register("xds_resources_encoded", "Envoy resources built and encoded", self.encoded.clone());
        registry.register("xds_proxies_woken", "Snapshots published to proxies", self.woken.clone());
        registry.register("xds_proxies", "Proxies that are connected", self.proxies.clone());
        registry.register(
            "quarantined_resources",
            "Stored resources that are ignored because they made the control plane panic",
            self.quarantined.clone(),
        );
        registry.register("xds_streams_refused", "Streams that were not admitted", self.refused.clone());
        registry.register("xds_responses_rejected", "Responses that a proxy rejected", self.rejected.clone());
        registry.register("xds_sent_bytes", "Bytes put on the wire to proxies", self.bytes.clone());
        registry.register("traffic_reports", "Load reports received from proxies", self.load_reports.clone());
        registry.register(
            "traffic_edges",
            "Pairs of client and destination with traffic that this control plane has observed",
            self.traffic_edges.clone(),
        );
        registry.register(
            "traffic_dropped_observations",
            "Observations that were not recorded because there were too many pairs of client and destination",
            self.traffic_dropped.clone(),
        );
    }

    /// The engine encoded resources for a batch of changes, and published new snapshots to `woken` proxies.
    pub fn generated(&self, encoded: u64, woken: u64) {
        self.rounds.inc();
        self.encoded.inc_by(encoded);
        self.woken.inc_by(woken);
    }

    pub fn proxies_connected(&self, count: usize) {
        self.proxies.set(gauge(count));
    }

    pub fn resources_quarantined(&self, count: usize) {
        self.quarantined.set(gauge(count));
    }

    pub fn stream_refused(&self) {
        self.refused.inc();
    }

    pub fn responses_rejected(&self, count: u64) {
        self.rejected.inc_by(count);
    }

    pub fn load_report(&self) {
        self.load_reports.inc();
    }

    pub fn traffic(&self, edges: usize, dropped: u64) {
        self.traffic_edges.set(i64::try_from(edges).unwrap_or(i64::MAX));
        self.traffic_dropped.set(i64::try_from(dropped).unwrap_or(i64::MAX));
    }

    pub fn bytes_sent(&self, bytes: u64) {
        self.bytes.inc_by(bytes);
    }
}
