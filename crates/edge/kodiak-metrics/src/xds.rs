//! Proxies, and the configuration that is sent to them.

use std::time::Duration;

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram},
    registry::Registry,
};

use crate::{gauge, kuma::Unsuffixed, store::seconds, summary::Summary};

#[derive(Clone)]
pub struct XdsMetrics {
    round_seconds: Histogram,
    generation: Summary,
    delivery_seconds: Histogram,
    delivery: Summary,
    invalid: Counter,
    responses: Family<TypeLabels, Unsuffixed>,
    answers: Family<AnswerLabels, Unsuffixed>,
    health_streams: Gauge,
    health_checks: Counter,
    health_reports: Counter,
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

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct TypeLabels {
    type_url: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct AnswerLabels {
    type_url: &'static str,
    confirmation: &'static str,
}

/// Messages of one type that were exchanged with a proxy.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Exchanged {
    pub sent: u64,
    pub acknowledged: u64,
    pub rejected: u64,
}

impl XdsMetrics {
    pub(crate) fn new() -> Self {
        Self {
            round_seconds: seconds(),
            generation: Summary::default(),
            delivery_seconds: seconds(),
            delivery: Summary::default(),
            invalid: Counter::default(),
            responses: Family::default(),
            answers: Family::default(),
            health_streams: Gauge::default(),
            health_checks: Counter::default(),
            health_reports: Counter::default(),
            rounds: Counter::default(),
            encoded: Counter::default(),
            woken: Counter::default(),
            proxies: Gauge::default(),
            quarantined: Gauge::default(),
            refused: Counter::default(),
            rejected: Counter::default(),
            bytes: Counter::default(),
            load_reports: Counter::default(),
            traffic_edges: Gauge::default(),
            traffic_dropped: Gauge::default(),
        }
    }

    /// Returns the summaries, which a registry cannot show.
    pub(crate) fn register_kuma(&self, registry: &mut Registry) -> [(&'static str, &'static str, Summary); 2] {
        registry.register("xds_streams_active", "Proxies that are connected", self.proxies.clone());
        registry.register("xds_responses_sent", "Responses sent to proxies", self.responses.clone());
        registry.register("xds_requests_received", "Answers of proxies to responses", self.answers.clone());
        let invalid = Unsuffixed(self.invalid.clone());
        registry.register("xds_generation_errors", "Snapshots with resources that failed validation", invalid);
        registry.register("hds_streams_active", "Open streams of health checks", self.health_streams.clone());
        let checks = Unsuffixed(self.health_checks.clone());
        registry.register("hds_responses_sent", "Health checks sent to proxies", checks);
        let reports = Unsuffixed(self.health_reports.clone());
        registry.register("hds_requests_received", "Results of health checks that proxies reported", reports);
        [
            ("xds_generation", "Milliseconds of a round of the engine", self.generation.clone()),
            ("xds_delivery", "Milliseconds until a proxy answered a snapshot", self.delivery.clone()),
        ]
    }

    pub(crate) fn register(&self, registry: &mut Registry) {
        registry.register("xds_engine_rounds", "Batches of changes that the engine applied", self.rounds.clone());
        registry.register("xds_engine_round_seconds", "Time of a batch of changes", self.round_seconds.clone());
        registry.register(
            "xds_delivery_seconds",
            "Time from a new snapshot until the proxy answered all of it",
            self.delivery_seconds.clone(),
        );
        registry.register(
            "xds_invalid_snapshots",
            "Snapshots with resources that failed validation",
            self.invalid.clone(),
        );
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
    pub fn generated(&self, encoded: u64, woken: u64, took: Duration) {
        self.rounds.inc();
        self.round_seconds.observe(took.as_secs_f64());
        self.generation.observe(took);
        self.encoded.inc_by(encoded);
        self.woken.inc_by(woken);
    }

    pub fn proxy_connected(&self) {
        self.proxies.inc();
    }

    pub fn proxy_disconnected(&self) {
        self.proxies.dec();
    }

    pub fn resources_quarantined(&self, count: usize) {
        self.quarantined.set(gauge(count));
    }

    pub fn stream_refused(&self) {
        self.refused.inc();
    }

    pub fn snapshot_invalid(&self) {
        self.invalid.inc();
    }

    /// A proxy answered a whole snapshot, this long after it was published.
    pub fn delivered(&self, took: Duration) {
        self.delivery_seconds.observe(took.as_secs_f64());
        self.delivery.observe(took);
    }

    pub fn exchanged(&self, type_url: &'static str, exchanged: Exchanged) {
        let Exchanged { sent, acknowledged, rejected } = exchanged;
        self.responses.get_or_create(&TypeLabels { type_url }).0.inc_by(sent);
        self.answers.get_or_create(&AnswerLabels { type_url, confirmation: "ACK" }).0.inc_by(acknowledged);
        self.answers.get_or_create(&AnswerLabels { type_url, confirmation: "NACK" }).0.inc_by(rejected);
        self.rejected.inc_by(rejected);
    }

    pub fn health_stream_opened(&self) {
        self.health_streams.inc();
    }

    pub fn health_stream_closed(&self) {
        self.health_streams.dec();
    }

    pub fn health_checks_sent(&self) {
        self.health_checks.inc();
    }

    pub fn health_report(&self) {
        self.health_reports.inc();
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
