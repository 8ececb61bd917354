//! What each Envoy resource is made from: no more than what changes its bytes.
//!
//! Inputs can be compared and hashed, so that a resource is made once for each input and shared by all who need it.

use std::{collections::BTreeMap, sync::Arc};

use kodiak_model::policy::Conf;
use kodiak_model::tls::TlsVersion;
use kodiak_model::{Kri, Protocol};
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
    /// Where confs send calls.
    pub backends: Arc<Backends>,
    /// Routes that are known by another name than the hash of their matches, by that hash.
    pub route_names: Arc<BTreeMap<Arc<str>, Arc<str>>>,
    /// Whether the socket is really bound: without redirection, or when VIPs are loopback addresses.
    pub bind: bool,
    pub shape: Shape,
}

/// What is called.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Callee {
    /// A `kuma.io/service`, or a part of one. With `kuma.io/service`, without `kuma.io/mesh`.
    Service(Arc<Tags>),
    /// A port of a resource of the mesh.
    Port { kri: Arc<Kri>, host: CalledAs },
}

/// What a destination expects in the host header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CalledAs {
    Written,
    /// Its own name, because it knows no other.
    ItsOwn,
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

/// A destination as its callers see it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct OutboundCluster {
    pub name: Arc<str>,
    pub mesh: Arc<str>,
    /// Who answers, where calls are encrypted.
    pub peer: Option<Arc<Peer>>,
    pub upstream: UpstreamProtocol,
    pub confs: Arc<ByKind<Conf>>,
}

/// What proxies speak to a destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum UpstreamProtocol {
    /// HTTP between proxies is HTTP/2, whatever workloads speak.
    Proxy,
    /// Bytes between proxies.
    ProxyTcp,
    Http1,
    Http2,
    Tcp,
}

impl UpstreamProtocol {
    /// For what is served by a proxy of the mesh.
    pub fn inside(protocol: Protocol) -> Self {
        match Carried::by(protocol) {
            Carried::Http => Self::Proxy,
            Carried::Tcp => Self::ProxyTcp,
        }
    }

    /// For what is no proxy of the mesh.
    pub fn outside(protocol: Protocol) -> Self {
        match protocol {
            Protocol::Http => Self::Http1,
            Protocol::Http2 | Protocol::Grpc => Self::Http2,
            Protocol::Kafka | Protocol::Mysql | Protocol::Tcp | Protocol::Tls => Self::Tcp,
        }
    }
}

/// Who is expected at the other end.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Peer {
    /// The server name under which it is called.
    pub sni: String,
    /// One of these is in its certificate; anybody of the mesh will do when there are none. Sorted.
    pub identities: Vec<String>,
}

/// A destination outside of the mesh, called without a proxy in between.
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
    /// An IP address, or a name that Envoy looks up.
    pub address: String,
    pub port: u32,
}

/// How the proxy speaks TLS with it.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct ExternalTls {
    /// The oldest and the newest version; Envoy's own when missing.
    pub versions: (Option<TlsVersion>, Option<TlsVersion>),
    pub allow_renegotiation: bool,
    /// The server name that is sent.
    pub sni: Option<String>,
    /// What its certificate must be made for: one of these.
    pub names: Vec<ExternalName>,
    pub authority: ExternalAuthority,
    /// The certificate and the key that are shown.
    pub client: Option<(Arc<str>, Arc<str>)>,
}

/// A name in a certificate.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ExternalName {
    Exact(String),
    Prefix(String),
}

/// Whose certificates are believed.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ExternalAuthority {
    /// Everybody's: nothing is verified.
    Anybody,
    /// PEM.
    Given(Arc<str>),
    /// Those of the machine of the proxy: the path of the file.
    System(Arc<str>),
}

impl std::fmt::Debug for ExternalTls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ExternalTls(***)")
    }
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
