//! ProxySettings of the registry, filled from the configuration of the control plane.

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
use kodiak_metrics::{Exchanged, ProxyPortMetrics, XdsMetrics};
use kodiak_xds::health::Timing;
use kodiak_xds_stream::TypeUrl;

/// Returns why a PEM text is not a CA certificate.
pub type CheckCa = Arc<dyn Fn(&str) -> Result<(), String> + Send + Sync>;
pub type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

#[derive(Clone)]
pub struct ProxySettings {
    /// Id of this control plane in insights.
    pub instance_id: String,
    pub authn: Authn,
    /// Time after which the Dataplane of a proxy that disconnected is deleted, if the proxy registered it.
    pub deregistration_delay: Duration,
    /// Shortest time between two writes of an insight when only counters have changed.
    pub insight_interval: Duration,
    /// Time without a sign of life after which a connection counts as closed.
    pub idle_timeout: Duration,
    /// Time after which the Dataplane of an offline proxy is deleted.
    pub cleanup_age: Duration,
    /// Number of connections in an insight.
    pub subscription_limit: usize,
    /// Host at which proxies reach this control plane. `None`: the host of their bootstrap request.
    pub xds_host: Option<String>,
    pub xds_port: u16,
    /// SANs of the certificate of the proxy port.
    pub server_names: Vec<String>,
    /// PEM of the CA by which proxies trust this control plane, unless they send their own. Without either they get no
    /// bootstrap.
    pub ca: Option<String>,
    pub check_ca: CheckCa,
    /// Delta xDS for proxies that do not ask for it.
    pub default_delta: bool,
    /// Envoy's admin interface listens on a socket in the working directory of the proxy.
    pub admin_socket: bool,
    /// Timing of the health checks that proxies run for inbounds with a `serviceProbe`. `None` turns them off.
    pub health: Option<Timing>,
    /// Observation of the traffic between services. `None` turns it off.
    pub traffic: Option<TrafficSettings>,
    pub now: Clock,
    pub observer: Option<Arc<dyn Observer>>,
    /// Counts requests that are no streams.
    pub port_metrics: Option<ProxyPortMetrics>,
}

/// Observation of traffic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TrafficSettings {
    /// Interval at which proxies report.
    pub interval: Duration,
    /// Shortest time between two writes.
    pub flush_interval: Duration,
    /// Most pairs of client and destination of a mesh.
    pub max_edges: usize,
}

impl Default for TrafficSettings {
    fn default() -> Self {
        Self { interval: Duration::from_secs(10), flush_interval: Duration::from_secs(30), max_edges: 100_000 }
    }
}

/// How proxies authenticate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Authn {
    DataplaneToken,
    /// Authentication is disabled. For trials on one's own machine.
    None,
}

impl ProxySettings {
    /// Kuma's defaults, where it has them.
    pub fn new(instance_id: &str) -> Self {
        Self {
            instance_id: instance_id.to_owned(),
            authn: Authn::DataplaneToken,
            deregistration_delay: Duration::from_secs(10),
            insight_interval: Duration::from_secs(10),
            idle_timeout: Duration::from_mins(5),
            cleanup_age: Duration::from_hours(72),
            subscription_limit: 2,
            xds_host: None,
            xds_port: 5678,
            server_names: Vec::new(),
            ca: None,
            check_ca: Arc::new(|_| Ok(())),
            default_delta: false,
            admin_socket: true,
            health: Some(Timing::default()),
            traffic: None,
            now: Arc::new(Timestamp::now),
            observer: None,
            port_metrics: None,
        }
    }
}

/// Counts proxies and streams, for metrics. Called while streams wait, so it must be quick.
pub trait Observer: Send + Sync {
    /// A proxy is connected that was not before. Calls for several proxies are in no order.
    fn connected(&self);
    /// A proxy has no stream any more.
    fn disconnected(&self);
    /// A stream was not admitted.
    fn refused(&self);
    /// More messages of a type were exchanged with a proxy.
    fn exchanged(&self, type_url: TypeUrl, exchanged: Exchanged);
    /// A proxy answered everything of a snapshot, this long after it was published.
    fn delivered(&self, _took: Duration) {}
    /// `bytes` more were sent.
    fn sent(&self, bytes: u64);
    fn health_stream_opened(&self) {}
    fn health_stream_closed(&self) {}
    /// A proxy was sent new health checks.
    fn health_checks_sent(&self) {}
    /// A proxy has reported results of its health checks.
    fn health_reported(&self) {}
    /// A proxy has reported its traffic.
    fn load_reported(&self) {}
    /// Edges that this control plane has recorded since it started, and observations that it dropped.
    fn traffic_recorded(&self, _edges: usize, _dropped: u64) {}
}

impl Observer for XdsMetrics {
    fn connected(&self) {
        self.proxy_connected();
    }

    fn disconnected(&self) {
        self.proxy_disconnected();
    }

    fn refused(&self) {
        self.stream_refused();
    }

    fn exchanged(&self, type_url: TypeUrl, exchanged: Exchanged) {
        self.exchanged(type_url.as_str(), exchanged);
    }

    fn delivered(&self, took: Duration) {
        self.delivered(took);
    }

    fn health_stream_opened(&self) {
        self.health_stream_opened();
    }

    fn health_stream_closed(&self) {
        self.health_stream_closed();
    }

    fn health_checks_sent(&self) {
        self.health_checks_sent();
    }

    fn health_reported(&self) {
        self.health_report();
    }

    fn sent(&self, bytes: u64) {
        self.bytes_sent(bytes);
    }

    fn load_reported(&self) {
        self.load_report();
    }

    fn traffic_recorded(&self, edges: usize, dropped: u64) {
        self.traffic(edges, dropped);
    }
}
