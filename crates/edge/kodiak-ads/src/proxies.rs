//! Interface between the port and the proxy registry.

use std::{future::Future, net::SocketAddr, pin::Pin, sync::Arc, time::Duration};

use bytes::Bytes;
use kodiak_envoy::envoy::config::core::v3::Node;
use kodiak_envoy::envoy::config::endpoint::v3::ClusterStats;
use kodiak_envoy::envoy::service::health::v3::{EndpointHealthResponse, HealthCheckSpecifier};
use kodiak_xds_stream::{Counters, Snapshot, TypeUrl};
use tokio::sync::watch;

pub type Answer<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// The registry of proxies, as the port uses it.
pub trait Proxies: Send + Sync + 'static {
    /// Authenticates a stream by its headers. `Err` closes it with this status before anything that its client sends is
    /// buffered. [`Self::connect`] checks the credential against the proxy.
    fn admit_headers(&self, credential: &Credential) -> Result<(), Closing>;

    /// Admits a stream by its first message. `Err` closes it with this status.
    fn connect(&self, hello: Hello) -> Answer<'_, Result<Session, Closing>>;

    /// The same for the stream of health checks of a proxy.
    fn connect_health(&self, hello: HealthHello) -> Answer<'_, Result<HealthSession, Closing>>;

    /// The same for the stream of load reports of a proxy.
    fn connect_load(&self, hello: LoadHello) -> Answer<'_, Result<LoadSession, Closing>>;

    /// Answers a plain HTTP request: `POST /bootstrap`, `POST /drain`, `POST /plaintext-callers`.
    fn answer(&self, request: http::Request<Bytes>, peer: SocketAddr) -> Answer<'_, Reply>;
}

/// The first message of a stream.
#[derive(Debug, Clone)]
pub struct Hello {
    pub node: Node,
    pub credential: Credential,
    pub protocol: Protocol,
    pub peer: SocketAddr,
}

/// The first message of a stream of health checks.
#[derive(Debug, Clone)]
pub struct HealthHello {
    pub node: Node,
    pub credential: Credential,
    pub peer: SocketAddr,
}

/// Identity of a proxy that opens a stream of load reports.
#[derive(Debug, Clone)]
pub struct LoadHello {
    pub node: Node,
    pub credential: Credential,
    pub peer: SocketAddr,
}

/// The `authorization` header of the stream, if it has exactly one. Never printed.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Credential(pub Option<String>);

impl std::fmt::Debug for Credential {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.0.is_some() { "Credential(***)" } else { "Credential(none)" })
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    Delta,
    StateOfTheWorld,
}

/// A stream that was admitted. Dropping `report` means that it has ended.
pub struct Session {
    /// The latest snapshot; `None` until there is one.
    pub snapshots: watch::Receiver<Option<Arc<Snapshot>>>,
    /// Becomes `Some` when the stream must end.
    pub closing: watch::Receiver<Option<Closing>>,
    pub report: Box<dyn Report>,
}

/// A stream of health checks that was admitted. Dropping `report` means that it has ended.
pub struct HealthSession {
    /// Health checks to run; `None` as long as there are none.
    pub checks: watch::Receiver<Option<Arc<HealthCheckSpecifier>>>,
    /// Becomes `Some` when the stream must end.
    pub closing: watch::Receiver<Option<Closing>>,
    pub report: Box<dyn HealthReport>,
}

/// A stream of load reports that was admitted. Dropping `report` means that it has ended.
pub struct LoadSession {
    /// Interval of the reports.
    pub interval: Duration,
    /// Changes when the proxy has acknowledged new configuration.
    pub configured: watch::Receiver<()>,
    /// Becomes `Some` when the stream must end.
    pub closing: watch::Receiver<Option<Closing>>,
    pub report: Box<dyn LoadReport>,
}

/// Receives load reports: traffic to each cluster since the report before.
pub trait LoadReport: Send + 'static {
    fn report(&mut self, clusters: Vec<ClusterStats>);
}

/// Receives results of health checks.
pub trait HealthReport: Send + 'static {
    fn report(&mut self, found: EndpointHealthResponse);
}

/// Receives reports of a stream.
pub trait Report: Send + 'static {
    fn report(&mut self, report: StreamReport<'_>);

    /// The control plane ends the stream. Not called when the client does.
    fn closed(&mut self, closing: &Closing);
}

/// Status of a stream, reported after every request of its client and every push.
#[derive(Debug, Clone, Copy)]
pub struct StreamReport<'a> {
    pub counters: [(TypeUrl, &'a Counters); TypeUrl::COUNT],
    /// The revision of the newest snapshot that the client has acknowledged in full, since the last report.
    pub settled: Option<u64>,
    /// The revision of the newest snapshot of which nothing waits to be sent, since the last report. Parts of it may wait
    /// for acknowledgements.
    pub sent: Option<u64>,
    /// Bytes sent since the last report.
    pub bytes: u64,
}

/// gRPC status with which a stream is closed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Closing {
    pub code: u8,
    pub message: String,
}

impl Closing {
    pub const OK: u8 = 0;
    pub const INVALID_ARGUMENT: u8 = 3;
    pub const ALREADY_EXISTS: u8 = 6;
    pub const PERMISSION_DENIED: u8 = 7;
    pub const RESOURCE_EXHAUSTED: u8 = 8;
    pub const FAILED_PRECONDITION: u8 = 9;
    pub const UNIMPLEMENTED: u8 = 12;
    pub const INTERNAL: u8 = 13;
    pub const UNAVAILABLE: u8 = 14;
    pub const UNAUTHENTICATED: u8 = 16;
}

/// Response to a plain HTTP request.
pub type Reply = http::Response<Bytes>;
