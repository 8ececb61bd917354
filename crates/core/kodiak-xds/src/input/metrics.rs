//! Inputs of the listeners for metrics.

use std::sync::Arc;

use kodiak_policies::target::Collector;

use super::TlsSource;

/// Metrics of a proxy: listeners that Prometheus scrapes, and collectors that `kodiak dp` pushes to.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Metrics {
    /// Socket on which `kodiak dp` serves metrics.
    pub socket: String,
    pub listeners: Vec<MetricsListener>,
    pub collectors: Vec<CollectorListener>,
    pub reuse_port: bool,
}

/// A port that Prometheus scrapes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct MetricsListener {
    /// Name of the backend.
    pub backend: String,
    pub address: String,
    pub port: u32,
    pub path: String,
    pub tls: MetricsTls,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum MetricsTls {
    Disabled,
    /// Certificate files on the machine of the proxy. Clients need no certificate.
    Files {
        certificate: String,
        key: String,
    },
    /// Certificate of the proxy. Clients need a certificate of the mesh.
    Mesh {
        mesh: Arc<str>,
        source: TlsSource,
    },
}

/// A collector, and the socket on which Envoy receives metrics for it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct CollectorListener {
    pub socket: String,
    pub cluster: CollectorCluster,
}

/// Cluster of a server that receives logs, traces or metrics.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct CollectorCluster {
    pub collector: Collector,
    /// Whether its hostname is resolved to IPv6 addresses, too.
    pub ipv6: bool,
}
