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

    pub fn bytes_sent(&self, bytes: u64) {
        self.bytes.inc_by(bytes);
    }
}
