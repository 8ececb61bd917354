//! Inputs of each Envoy resource: exactly the values that determine its bytes.
//!
//! Inputs can be compared and hashed, so that a resource is built once for each input and shared by all proxies that
//! need it.

use std::{collections::BTreeMap, sync::Arc};

use kodiak_model::policy::Conf;
use kodiak_model::tls::TlsVersion;
use kodiak_model::{Cidr, InboundTls, Kri, Protocol};
use kodiak_policies::passthrough::PassthroughMatch;
use kodiak_policies::target::{Backends, ProxyFacts, UpstreamTraffic};
use kodiak_policies::{Confs, Entry};

pub use kodiak_policies::target::{Endpoint, Tags, TlsParameters};

mod metrics;
mod validation;

pub use metrics::{CollectorListener, Metrics, MetricsListener, MetricsTls};
pub use validation::{Cas, TrustedCas, Validation};

use crate::dynamic_config::Document;

/// Values by policy kind.
pub type ByKind<T> = BTreeMap<&'static str, T>;

/// Properties of a proxy that affect all its listeners.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Shape {
    /// Connections are redirected to the proxy, so listeners do not bind.
    pub transparent: bool,
    pub reuse_port: bool,
    pub ipv6: bool,
}

/// One inbound: its listener, and the cluster of its application.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Inbound {
    pub mesh: Arc<str>,
    pub address: String,
    pub port: u32,
    pub workload_address: String,
    pub workload_port: u32,
    /// Name of the application's cluster.
    pub cluster: Arc<str>,
    /// Name of the inbound, or its port.
    pub section: String,
    pub protocol: Protocol,
    pub tags: Tags,
    pub accept: InboundTls,
    pub tls: TlsSource,
    pub tls_parameters: TlsParameters,
    pub entries: Arc<ByKind<Vec<Entry>>>,
    /// Facts about the proxy that the entries need.
    pub facts: Arc<ProxyFacts>,
    pub shape: Shape,
}

/// One address at which a proxy reaches a destination.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct OutboundListener {
    pub mesh: Arc<str>,
    pub name: Arc<str>,
    pub address: String,
    pub port: u32,
    pub callee: Callee,
    pub cluster: Arc<str>,
    pub protocol: Protocol,
    pub carried: Carried,
    pub confs: Arc<ByKind<Confs>>,
    /// Facts about the proxy that the confs need.
    pub facts: Arc<ProxyFacts>,
    /// Backends of the confs.
    pub backends: Arc<Backends>,
    /// Display names of routes, by the hash of their matches.
    pub route_names: Arc<BTreeMap<Arc<str>, Arc<str>>>,
    /// Whether the listener binds its socket: without redirection, or when VIPs are loopback addresses.
    pub bind: bool,
    pub shape: Shape,
}

/// Destination of an outbound.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Callee {
    /// A `kuma.io/service`, or a subset of it. Includes `kuma.io/service`, but not `kuma.io/mesh`.
    Service(Arc<Tags>),
    /// A port of a MeshService, MeshExternalService or MeshMultiZoneService.
    Port { kri: Arc<Kri>, host: HostHeader },
}

/// Host header that a destination expects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum HostHeader {
    Unchanged,
    /// Its own hostname.
    OwnHostname,
}

/// Whether Envoy proxies HTTP requests or TCP connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Carried {
    /// HTTP requests, which can be routed.
    Http,
    /// TCP connections.
    Tcp,
}

impl Carried {
    /// Default for a protocol, without policies.
    pub fn by(protocol: Protocol) -> Self {
        match protocol {
            Protocol::Http | Protocol::Http2 | Protocol::Grpc => Self::Http,
            Protocol::Kafka | Protocol::Mysql | Protocol::Tcp | Protocol::Tls => Self::Tcp,
        }
    }

    /// With routes of these kinds. Requests of an HTTP destination are routed as HTTP unless only a MeshTCPRoute selects
    /// it. A destination of another protocol stays TCP: a MeshHTTPRoute would break its traffic. A service without
    /// instances has no protocol yet, so its routes decide.
    pub fn with_routes(protocol: Option<Protocol>, http: bool, tcp: bool) -> Self {
        let is_http = match protocol.map(Self::by) {
            Some(Self::Http) => http || !tcp,
            Some(Self::Tcp) => false,
            None => http && !tcp,
        };
        if is_http { Self::Http } else { Self::Tcp }
    }
}

/// Cluster of a destination.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct OutboundCluster {
    pub name: Arc<str>,
    pub mesh: Arc<str>,
    /// Expected identity of the server, with mTLS.
    pub peer: Option<Arc<Peer>>,
    pub upstream: UpstreamProtocol,
    pub confs: Arc<ByKind<Conf>>,
}

/// Protocol between the proxy and a destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum UpstreamProtocol {
    /// HTTP between proxies is HTTP/2, regardless of the application's version.
    Proxy,
    ProxyGrpc,
    /// TCP between proxies.
    ProxyTcp,
    Http1,
    Http2,
    Grpc,
    Tcp,
}

impl UpstreamProtocol {
    /// For destinations with a proxy of the mesh.
    pub fn inside(protocol: Protocol) -> Self {
        match protocol {
            Protocol::Http | Protocol::Http2 => Self::Proxy,
            Protocol::Grpc => Self::ProxyGrpc,
            Protocol::Kafka | Protocol::Mysql | Protocol::Tcp | Protocol::Tls => Self::ProxyTcp,
        }
    }

    /// For destinations without a proxy of the mesh.
    pub fn outside(protocol: Protocol) -> Self {
        match protocol {
            Protocol::Http => Self::Http1,
            Protocol::Http2 => Self::Http2,
            Protocol::Grpc => Self::Grpc,
            Protocol::Kafka | Protocol::Mysql | Protocol::Tcp | Protocol::Tls => Self::Tcp,
        }
    }
}

impl UpstreamProtocol {
    /// Protocol of the application.
    pub(crate) fn traffic(self) -> UpstreamTraffic {
        match self {
            Self::Proxy | Self::Http1 | Self::Http2 => UpstreamTraffic::Http,
            Self::ProxyGrpc | Self::Grpc => UpstreamTraffic::Grpc,
            Self::ProxyTcp | Self::Tcp => UpstreamTraffic::Tcp,
        }
    }
}

/// Where a proxy gets its certificate, the CAs that it trusts, and the SPIFFE IDs that it accepts.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TlsSource {
    /// Secrets of the control plane. Their names do not depend on their content.
    #[default]
    ControlPlane,
    /// The SPIRE agent beside it. Its secrets have no SPIFFE IDs, so these are part of the TLS context.
    Spire {
        agent: Arc<SpireAgent>,
        /// Any that the agent trusts when empty. Sorted.
        accepted: Vec<String>,
    },
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SpireAgent {
    /// SPIFFE ID of the proxy.
    pub spiffe_id: String,
    /// Path of its Unix socket.
    pub socket: String,
    /// For connecting to it.
    pub timeout: std::time::Duration,
}

/// Expected identity of a server.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Peer {
    /// SNI of the connection.
    pub sni: String,
    pub tls: TlsSource,
    pub tls_parameters: TlsParameters,
    /// Whether some endpoints are called in plain text instead.
    pub some_plaintext: bool,
}

/// Cluster of a MeshExternalService, without a zone egress.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ExternalCluster {
    pub name: Arc<str>,
    pub upstream: UpstreamProtocol,
    pub endpoints: Vec<ExternalEndpoint>,
    pub tls: Option<Arc<ExternalTls>>,
    pub ipv6: bool,
    pub confs: Arc<ByKind<Conf>>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ExternalEndpoint {
    pub priority: u32,
    /// An IP address, or a hostname that Envoy resolves.
    pub address: String,
    pub port: u32,
}

/// TLS settings for its endpoints.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct ExternalTls {
    /// Minimum and maximum version; Envoy's defaults when missing.
    pub versions: (Option<TlsVersion>, Option<TlsVersion>),
    pub allow_renegotiation: bool,
    /// SNI of the connection.
    pub sni: Option<String>,
    /// SANs, of which the certificate must have one.
    pub names: Vec<ExternalName>,
    pub authority: ExternalCa,
    /// Client certificate and private key.
    pub client: Option<(Arc<str>, Arc<str>)>,
}

/// A SAN.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ExternalName {
    Exact(String),
    Prefix(String),
}

/// CAs that are trusted.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ExternalCa {
    /// Certificates are not verified.
    Unverified,
    /// PEM.
    Given(Arc<str>),
    /// CAs of the proxy's operating system: the path of the file.
    System(Arc<str>),
}

impl std::fmt::Debug for ExternalTls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ExternalTls(***)")
    }
}

/// Cluster of instances that are called by their own addresses.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct DirectAccessCluster {
    pub mesh: Arc<str>,
    pub name: &'static str,
    pub access: DirectAccess,
}

/// How instances are called by their own addresses.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum DirectAccess {
    Plaintext,
    Mtls(Arc<Peer>),
    /// Not at all.
    Closed,
}

/// Endpoints of a cluster, sorted.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Assignment {
    pub cluster: Arc<str>,
    pub endpoints: Arc<[Endpoint]>,
    /// Envoy's default when missing.
    pub overprovisioning_factor: Option<u32>,
}

/// Handling of redirected connections without a matching listener. Only with transparent proxying.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Passthrough {
    pub inbound_port: u32,
    pub outbound_port: u32,
    pub ipv6: bool,
    pub reuse_port: bool,
    pub outside: OutsideTraffic,
    /// Ports that accept inbound connections; all when missing.
    pub inbound_ports: Option<Vec<u32>>,
    /// Ranges of virtual addresses, if the proxy answers calls to those that it has no listener for: destinations were
    /// trimmed, and their hostnames resolve.
    pub trimmed: Option<Arc<[Cidr]>>,
    pub mesh: Arc<str>,
    /// Confs for outbound connections.
    pub confs: Arc<ByKind<Confs>>,
    /// Facts about the proxy that the confs need.
    pub facts: Arc<ProxyFacts>,
}

/// Connections of the application to destinations outside the mesh.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum OutsideTraffic {
    Allowed,
    /// The Mesh refuses them.
    RefusedByMesh,
    /// A MeshPassthrough refuses them.
    RefusedByPolicy,
    /// Only those that one of these matches are allowed.
    Matched(Arc<[PassthroughMatch]>),
}

/// Envoy's admin interface, as reached by the control plane and by probes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Admin {
    /// Address at which the control plane reaches the proxy.
    pub address: String,
    pub port: u32,
    pub endpoint: AdminEndpoint,
    /// Port on which `kodiak dp` serves `/ready`. Envoy itself serves it when missing.
    pub readiness_port: Option<u32>,
    pub certificate: Option<Arc<AdminCertificate>>,
    pub reuse_port: bool,
}

/// Address of Envoy's admin interface.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum AdminEndpoint {
    Socket(String),
    Address { address: String, port: u32 },
}

/// Server certificate for the admin listener, and the client that may access it.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct AdminCertificate {
    pub certificate: String,
    pub key: String,
    /// CA of the control plane's client certificate.
    pub client_ca: String,
    /// DNS SAN of that certificate.
    pub client_name: String,
}

impl std::fmt::Debug for AdminCertificate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("AdminCertificate(***)")
    }
}

/// Paths that are served without mTLS (`probes` of a Dataplane).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Probes {
    pub address: String,
    pub port: u32,
    pub endpoints: Vec<ProbeEndpoint>,
    pub shape: Shape,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ProbeEndpoint {
    pub path: String,
    pub inbound_path: String,
    pub inbound_port: u32,
    /// Local cluster of the inbound; without one the client is redirected to the port itself.
    pub cluster: Option<Arc<str>>,
}

/// Configuration that `kodiak dp` reads through Envoy.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct DynamicConfig {
    pub socket: String,
    /// By path. No path is a prefix of another.
    pub documents: BTreeMap<&'static str, Arc<Document>>,
}

/// DNS records of a proxy.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct DnsTable {
    /// Sorted by name.
    pub records: Arc<[DnsRecord]>,
    pub ipv6: bool,
}

/// Envoy as the DNS server, on a port of 127.0.0.1.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct DnsListener {
    pub table: DnsTable,
    pub port: u32,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DnsRecord {
    pub name: Arc<str>,
    pub address: std::net::Ipv4Addr,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum DnsServer {
    /// `kodiak dp` answers, and reads the records from its dynamic configuration.
    Runner { socket: String },
    /// Envoy answers on this port of 127.0.0.1.
    Envoy { port: u32 },
}

/// Certificate of a proxy.
#[derive(Clone, PartialEq, Eq)]
pub struct Identity {
    /// PEM, the leaf first.
    pub certificate: Arc<str>,
    /// PEM.
    pub key: Arc<str>,
}

impl std::fmt::Debug for Identity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Identity(***)")
    }
}
