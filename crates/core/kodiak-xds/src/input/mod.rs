//! What each Envoy resource is made from: no more than what changes its bytes.
//!
//! Inputs can be compared and hashed, so that a resource is made once for each input and shared by all who need it.

use std::{collections::BTreeMap, sync::Arc};

use kodiak_model::Protocol;
use kodiak_model::policy::Conf;
use kodiak_policies::target::Backends;
use kodiak_policies::{Confs, Entry};

pub use kodiak_policies::target::{Endpoint, Tags};

/// What policies say, by the name of their kind.
pub type ByKind<T> = BTreeMap<&'static str, T>;

/// What of a proxy shapes all its listeners.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Shape {
    /// Connections are redirected to the proxy: listeners are not bound.
    pub transparent: bool,
    pub reuse_port: bool,
    pub ipv6: bool,
}

/// Which connections an inbound takes. The steps between "no mTLS" and "only mTLS".
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Accept {
    #[default]
    Plain,
    Both,
    Mtls,
}

/// One inbound: its listener, and the cluster of the workload behind it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Inbound {
    pub mesh: Arc<str>,
    pub address: String,
    pub port: u32,
    pub workload_address: String,
    pub workload_port: u32,
    /// The name of the workload's cluster.
    pub cluster: Arc<str>,
    /// The name of the inbound, or its port.
    pub section: String,
    pub protocol: Protocol,
    pub tags: Tags,
    pub accept: Accept,
    pub entries: Arc<ByKind<Vec<Entry>>>,
    pub shape: Shape,
}

/// One address at which a proxy reaches a service.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct OutboundListener {
    pub mesh: Arc<str>,
    pub address: String,
    pub port: u32,
    /// With `kuma.io/service`, without `kuma.io/mesh`.
    pub tags: Arc<Tags>,
    pub cluster: Arc<str>,
    pub protocol: Protocol,
    pub carried: Carried,
    pub confs: Arc<ByKind<Confs>>,
    /// Where confs send calls.
    pub backends: Arc<Backends>,
    /// Whether the socket is really bound: without redirection, or when VIPs are loopback addresses.
    pub bind: bool,
    pub shape: Shape,
}

/// How calls are carried to a destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Carried {
    /// Request by request: they can be routed.
    Http,
    /// Connection by connection.
    Tcp,
}

impl Carried {
    /// Where no policy wants it otherwise.
    pub fn by(protocol: Protocol) -> Self {
        match protocol {
            Protocol::Http | Protocol::Http2 | Protocol::Grpc => Self::Http,
            Protocol::Kafka | Protocol::Mysql | Protocol::Tcp | Protocol::Tls => Self::Tcp,
        }
    }
}

/// A service, or a subset of one, as its callers see it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct OutboundCluster {
    pub name: Arc<str>,
    pub mesh: Arc<str>,
    /// With `kuma.io/service`.
    pub tags: Arc<Tags>,
    pub mtls: bool,
    pub confs: Arc<ByKind<Conf>>,
}

/// The endpoints of a cluster, sorted.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Assignment {
    pub cluster: Arc<str>,
    pub endpoints: Arc<[Endpoint]>,
    /// Envoy's own when missing.
    pub overprovisioning_factor: Option<u32>,
}

/// What happens to connections that no other listener is for. Only with transparent proxying.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Passthrough {
    pub inbound_port: u32,
    pub outbound_port: u32,
    pub ipv6: bool,
    pub reuse_port: bool,
    /// Whether the mesh lets unknown destinations be called.
    pub outbound_allowed: bool,
    /// Only these ports are let through on the way in; all when missing.
    pub inbound_ports: Option<Vec<u32>>,
}

/// Envoy's own interface, as the control plane and probes reach it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Admin {
    /// Where the control plane reaches the proxy.
    pub address: String,
    pub port: u32,
    pub endpoint: AdminEndpoint,
    /// Where the runner answers `/ready`. Envoy itself does when missing.
    pub readiness_port: Option<u32>,
    pub certificate: Option<Arc<AdminCertificate>>,
    pub reuse_port: bool,
}

/// Where Envoy listens with its admin interface.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum AdminEndpoint {
    Socket(String),
    Address { address: String, port: u32 },
}

/// What the proxy shows to the control plane that asks for its admin interface, and whom it lets ask.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct AdminCertificate {
    pub certificate: String,
    pub key: String,
    /// The authority of the control plane's client certificate.
    pub client_ca: String,
    /// The DNS name in that certificate.
    pub client_name: String,
}

impl std::fmt::Debug for AdminCertificate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("AdminCertificate(***)")
    }
}

/// Paths that are answered without mTLS (`probes` of a Dataplane).
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
    /// The local cluster of that inbound; the caller is sent to the port itself when there is none.
    pub cluster: Option<Arc<str>>,
}

/// The names that the proxy answers, and how it gets to know them.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Dns {
    /// Sorted by name.
    pub records: Arc<[DnsRecord]>,
    pub server: DnsServer,
    pub ipv6: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DnsRecord {
    pub name: Arc<str>,
    pub address: std::net::Ipv4Addr,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum DnsServer {
    /// The runner answers, and reads the table from this socket.
    Runner { socket: String },
    /// Envoy answers at this port of 127.0.0.1.
    Envoy { port: u32 },
}

/// The certificate of a proxy.
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
