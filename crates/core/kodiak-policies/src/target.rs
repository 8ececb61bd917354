//! The messages that policies change: Envoy's configuration before it is packed.

use std::collections::BTreeMap;
use std::sync::Arc;

use kodiak_envoy::envoy::config::cluster::v3::Cluster;
use kodiak_envoy::envoy::config::listener::v3::Filter;
use kodiak_envoy::envoy::config::route::v3::Route;
use kodiak_envoy::envoy::extensions::filters::network::http_connection_manager::v3::{
    HttpConnectionManager, HttpFilter,
};
use kodiak_envoy::envoy::extensions::filters::network::tcp_proxy::v3::TcpProxy;
use kodiak_envoy::envoy::extensions::upstreams::http::v3::HttpProtocolOptions;
use kodiak_model::kinds::dataplane::BackendKind;
use kodiak_model::kinds::mesh::MtlsMode;
use kodiak_model::tls::TlsVersion;
use kodiak_model::{BackendRef, Labels, Protocol, TargetKind, tags};

use crate::order::{HttpStep, NetworkStep};

pub type Tags = BTreeMap<String, String>;

/// The terminal filter of a filter chain: HTTP connection manager or TCP proxy.
#[derive(Debug, Clone, PartialEq)]
pub enum Carrier {
    Http(Box<Http>),
    Tcp(Box<Tcp>),
}

#[derive(Debug, Clone, PartialEq)]
pub struct Http {
    /// Its routes and filters are in the fields below until the configuration is packed.
    pub manager: HttpConnectionManager,
    /// Routes of the single virtual host; the first match wins. The last one is the catch-all route.
    pub routes: Vec<Route>,
    /// In any order: packing sorts them by [`HttpStep`]. Filters of one step keep their order.
    pub filters: Vec<(HttpStep, HttpFilter)>,
    /// Network filters before the connection manager, in any order.
    pub network_filters: Vec<(NetworkStep, Filter)>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Tcp {
    pub proxy: TcpProxy,
    /// As for HTTP; the TCP proxy itself comes last.
    pub filters: Vec<(NetworkStep, Filter)>,
}

/// TLS between proxies, as policies configure it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tls {
    /// Of an inbound. The mTLS rollout of the mesh decides when it takes effect.
    pub mode: Option<MtlsMode>,
    pub parameters: TlsParameters,
}

/// TLS versions and ciphers; Envoy's defaults when missing.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TlsParameters {
    pub min: Option<TlsVersion>,
    pub max: Option<TlsVersion>,
    /// Names as Envoy has them. TLS 1.3 has its own, which cannot be configured.
    pub ciphers: Vec<&'static str>,
}

/// One inbound: its filter chains, and the cluster of its application.
#[derive(Debug, Clone, PartialEq)]
pub struct Inbound<'a> {
    pub mesh: &'a str,
    /// Name of the listener.
    pub listener: &'a str,
    pub protocol: Protocol,
    /// Its `kuma.io/service`; empty without tags.
    pub service: &'a str,
    /// Facts about the proxy that its confs need.
    pub facts: &'a ProxyFacts,
    pub chains: Vec<Chain>,
    /// Whether the listener needs the TLS inspector, to match filter chains by SNI and ALPN.
    pub inspects_tls: bool,
    pub workload: Upstream,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Chain {
    /// Callers presented a certificate of the mesh.
    pub mtls: bool,
    pub carrier: Carrier,
}

/// A cluster, with its HTTP protocol options unpacked.
#[derive(Debug, Clone, PartialEq)]
pub struct Upstream {
    pub cluster: Cluster,
    /// `None` when the endpoints do not use HTTP. Between proxies it is set for TCP too, and Envoy ignores it there.
    pub http: Option<HttpProtocolOptions>,
    pub traffic: UpstreamTraffic,
}

/// Protocol of the application behind a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UpstreamTraffic {
    Http,
    Grpc,
    /// Also all protocols that are proxied as TCP.
    Tcp,
}

impl From<Protocol> for UpstreamTraffic {
    fn from(protocol: Protocol) -> Self {
        match protocol {
            Protocol::Http | Protocol::Http2 => Self::Http,
            Protocol::Grpc => Self::Grpc,
            Protocol::Kafka | Protocol::Mysql | Protocol::Tcp | Protocol::Tls => Self::Tcp,
        }
    }
}

/// Outbound side of one destination.
#[derive(Debug, Clone, PartialEq)]
pub struct Outbound<'a> {
    pub mesh: &'a str,
    /// Name of its cluster.
    pub cluster: &'a str,
    pub destination: Destination<'a>,
    pub protocol: Protocol,
    pub carrier: Carrier,
    /// Backends of the confs that were found.
    pub backends: &'a Backends,
    /// Names that Envoy shows for routes, by the names that confs have for them. The other routes keep theirs.
    pub route_names: &'a BTreeMap<Arc<str>, Arc<str>>,
    /// Facts about the proxy that its confs need.
    pub facts: &'a ProxyFacts,
}

/// Destination of an outbound, as users name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Destination<'a> {
    /// A `kuma.io/service`.
    Service(&'a str),
    /// A MeshService or MeshMultiZoneService.
    Resource(&'a str),
    /// A MeshExternalService.
    External(&'a str),
    /// Any address outside the mesh.
    Outside,
}

/// A fact about a proxy that confs may contain. Proxies share outbound configuration only if the facts that their
/// policies need are equal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ProxyFact {
    /// Its first service; in meshes without tags, its workload.
    Service,
    /// KRI of its Workload.
    Workload,
    Zone,
    /// Path of the pipe from which its sidecar process forwards access logs.
    AccessLogPipe,
}

/// A fact that does not exist is missing.
pub type ProxyFacts = BTreeMap<ProxyFact, Arc<str>>;

/// Prefix of clusters that never exist: Envoy closes connections to them.
pub const NOWHERE: &str = "unresolved:";

/// Destination of a route.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Backend {
    pub cluster: Arc<str>,
    pub protocol: Protocol,
    /// Outside the mesh: it expects its own hostname in the host header.
    pub external: bool,
}

/// By reference, without the weight.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Backends(pub BTreeMap<BackendKey, Backend>);

impl Backends {
    pub fn get(&self, written: &BackendRef) -> Option<&Backend> {
        self.0.get(&BackendKey::of(written)?)
    }
}

/// Identity of a backend.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum BackendKey {
    /// A `kuma.io/service`, or a subset of it by more tags.
    Service(Tags),
    Port(PortRef),
}

/// A port of a MeshService, MeshExternalService or MeshMultiZoneService, as the reference has it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PortRef {
    pub kind: BackendKind,
    pub name: String,
    pub namespace: String,
    pub labels: BTreeMap<String, String>,
    pub port: Option<u32>,
    /// Empty when the reference has none.
    pub section: String,
}

impl BackendKey {
    /// `None` when the reference is not a destination.
    pub fn of(written: &BackendRef) -> Option<Self> {
        let service = |more: Option<&Tags>| {
            let mut tags = more.cloned().unwrap_or_default();
            tags.insert(tags::SERVICE.to_owned(), written.name.clone().filter(|name| !name.is_empty())?);
            Some(Self::Service(tags))
        };
        let port = |kind| Some(Self::Port(PortRef::of(kind, written)));
        match written.kind.as_ref()?.known()? {
            TargetKind::MeshService if written.is_legacy() => service(None),
            TargetKind::MeshService => port(BackendKind::MeshService),
            TargetKind::MeshServiceSubset => service(written.tags.as_ref()),
            TargetKind::MeshExternalService => port(BackendKind::MeshExternalService),
            TargetKind::MeshMultiZoneService => port(BackendKind::MeshMultiZoneService),
            _ => None,
        }
    }
}

impl PortRef {
    fn of(kind: BackendKind, written: &BackendRef) -> Self {
        let BackendRef { name, namespace, labels, port, section_name, .. } = written.clone();
        Self {
            kind,
            name: name.unwrap_or_default(),
            namespace: namespace.unwrap_or_default(),
            labels: labels.unwrap_or_default(),
            port,
            section: section_name.unwrap_or_default(),
        }
    }
}

/// A server that receives the logs, traces or metrics of proxies. A proxy has its cluster while its configuration
/// references it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Collector {
    /// Name of its cluster. Collectors with one name are equal.
    pub name: Arc<str>,
    /// An IP address, or a hostname that Envoy resolves.
    pub address: String,
    pub port: u32,
    pub protocol: CollectorProtocol,
    /// Whether connections are encrypted. Certificates are not verified, as in Kuma.
    pub tls: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CollectorProtocol {
    Http,
    Grpc,
}

/// Labels of the Dataplanes behind endpoints, by address and port. Not part of endpoints: Envoy does not read them.
pub type EndpointLabels = BTreeMap<(Arc<str>, u32), Arc<Labels>>;

/// Endpoints of a destination for one caller.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Endpoints {
    pub list: Vec<Endpoint>,
    pub labels: Arc<EndpointLabels>,
    /// Zone of the caller.
    pub zone: Arc<str>,
    /// Tags and labels of the caller that a policy requested.
    pub caller: Tags,
    /// Envoy's default when missing.
    pub overprovisioning_factor: Option<u32>,
}

impl Endpoints {
    /// Value of a tag of an endpoint, else of the label of its Dataplane.
    pub fn value(labels: &EndpointLabels, endpoint: &Endpoint, key: &str) -> Option<String> {
        let label = || labels.get(&(endpoint.address.clone(), endpoint.port))?.get(key);
        endpoint.tags.get(key).or_else(label).cloned()
    }
}

/// Endpoints with the same priority, zone and sub-zone form one locality.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Endpoint {
    pub priority: u32,
    /// Empty without zones.
    pub zone: Arc<str>,
    /// A part of the zone that affinity tags prefer; empty without them.
    pub sub_zone: Arc<str>,
    /// Weight of the locality within its priority.
    pub locality_weight: Option<u32>,
    pub address: Arc<str>,
    pub port: u32,
    /// Called in plain text, also by clients that use mTLS with others.
    pub plaintext: bool,
    pub weight: u32,
    /// Without `kuma.io/service`.
    pub tags: Arc<Tags>,
}
