//! How proxies are treated. Filled by the control plane's configuration.

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
use kodiak_metrics::XdsMetrics;
use kodiak_xds::health::Timing;
use kodiak_xds_stream::TypeUrl;

/// Says why a PEM text is not the certificate of an authority.
pub type CheckAuthority = Arc<dyn Fn(&str) -> Result<(), String> + Send + Sync>;
pub type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

#[derive(Clone)]
pub struct Settings {
    /// Names this control plane in insights.
    pub instance_id: String,
    pub authn: Authn,
    /// How long the Dataplane of a proxy that left is kept, if the proxy brought it.
    pub deregistration_delay: Duration,
    /// How often an insight is written at most, when only counters have changed.
    pub insight_interval: Duration,
    /// A connection that shows no sign of life for so long is taken for closed.
    pub idle_timeout: Duration,
    /// A Dataplane whose proxy is away for so long is deleted.
    pub cleanup_age: Duration,
    /// How many connections an insight remembers.
    pub subscription_limit: usize,
    /// Where proxies reach this control plane. They go on with the host they asked, when missing.
    pub xds_host: Option<String>,
    pub xds_port: u16,
    /// The names and addresses in the certificate of the port for proxies.
    pub server_names: Vec<String>,
    /// PEM of the authority that proxies believe this control plane by, unless they bring their own. Without either
    /// they get no bootstrap.
    pub ca: Option<String>,
    pub check_authority: CheckAuthority,
    /// Gives delta streams to proxies that do not ask for them.
    pub default_delta: bool,
    /// Lets Envoy's admin interface listen on a socket in the proxy's folder.
    pub admin_socket: bool,
    /// How proxies check the workloads beside them, where a Dataplane asks for it. Off when missing.
    pub health: Option<Timing>,
    pub now: Clock,
    pub observer: Option<Arc<dyn Observer>>,
}

/// How proxies prove who they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Authn {
    DataplaneToken,
    /// Everybody is believed. For trials on one's own machine.
    None,
}

impl Settings {
    /// The defaults of Kuma, where it has them.
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
            check_authority: Arc::new(|_| Ok(())),
            default_delta: false,
            admin_socket: true,
            health: Some(Timing::default()),
            now: Arc::new(Timestamp::now),
            observer: None,
        }
    }
}

/// Told about proxies, for metrics. Called while streams wait: must be quick.
pub trait Observer: Send + Sync {
    /// So many proxies are connected now.
    fn connected(&self, proxies: usize);
    /// A stream was not let in.
    fn refused(&self);
    /// A proxy has rejected `count` responses more.
    fn rejected(&self, type_url: TypeUrl, count: u64);
    /// So many bytes more were put on the wire.
    fn sent(&self, bytes: u64);
}

impl Observer for XdsMetrics {
    fn connected(&self, proxies: usize) {
        self.proxies_connected(proxies);
    }

    fn refused(&self) {
        self.stream_refused();
    }

    fn rejected(&self, _: TypeUrl, count: u64) {
        self.responses_rejected(count);
    }

    fn sent(&self, bytes: u64) {
        self.bytes_sent(bytes);
    }
}
