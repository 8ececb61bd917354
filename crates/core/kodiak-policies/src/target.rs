//! What policies change: Envoy's configuration while it is made, before it is packed.

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
use kodiak_model::{BackendRef, Protocol, TargetKind, tags};

use crate::order::{HttpStep, NetworkStep};

pub type Tags = BTreeMap<String, String>;

/// What carries calls through a filter chain.
#[derive(Debug, Clone, PartialEq)]
pub enum Carrier {
    Http(Box<Http>),
    Tcp(Box<Tcp>),
}

#[derive(Debug, Clone, PartialEq)]
pub struct Http {
    /// Its routes and filters are the fields below, and put into it at the end.
    pub manager: HttpConnectionManager,
    /// Of the one virtual host, the first that matches counts. The last takes everything.
    pub routes: Vec<Route>,
    /// In any order: they are put into that of [`HttpStep`]. Those of one step stay as they were added.
    pub filters: Vec<(HttpStep, HttpFilter)>,
    /// Of the connection, before HTTP is read from it. In any order, too.
    pub network_filters: Vec<(NetworkStep, Filter)>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Tcp {
    pub proxy: TcpProxy,
    /// As for HTTP; the proxy itself comes last.
    pub filters: Vec<(NetworkStep, Filter)>,
}

/// One inbound: its filter chains, and the workload behind it.
#[derive(Debug, Clone, PartialEq)]
pub struct Inbound<'a> {
    pub mesh: &'a str,
    /// The name of the listener.
    pub listener: &'a str,
    pub protocol: Protocol,
    pub chains: Vec<Chain>,
    /// Whether the listener must read the server name and ALPN of TLS before it chooses a chain.
    pub inspects_tls: bool,
    pub workload: Upstream,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Chain {
    /// Callers have shown a certificate of the mesh.
    pub mtls: bool,
    pub carrier: Carrier,
}

/// A cluster, its HTTP options apart.
#[derive(Debug, Clone, PartialEq)]
pub struct Upstream {
    pub cluster: Cluster,
    /// `None` when it is not called with HTTP.
    pub http: Option<HttpProtocolOptions>,
}

/// One destination, where it is called.
#[derive(Debug, Clone, PartialEq)]
pub struct Outbound<'a> {
    pub mesh: &'a str,
    /// The name of its cluster.
    pub cluster: &'a str,
    pub protocol: Protocol,
    pub carrier: Carrier,
    /// Where confs send calls: for each of their backends that was found.
    pub backends: &'a Backends,
}

/// How clusters begin that never exist: connections that lead there are closed.
pub const NOWHERE: &str = "unresolved:";

/// A destination that a route leads to.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Backend {
    pub cluster: Arc<str>,
    pub protocol: Protocol,
    /// Outside the mesh: it expects its own name in the host header.
    pub external: bool,
}

/// By what was written, weights apart.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Backends(pub BTreeMap<BackendKey, Backend>);

impl Backends {
    pub fn get(&self, written: &BackendRef) -> Option<&Backend> {
        self.0.get(&BackendKey::of(written)?)
    }
}

/// What a backend is known by.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum BackendKey {
    /// A `kuma.io/service`, or a part of it by more tags.
    Service(Tags),
    Port(PortRef),
}

/// A port of a resource of the mesh, as it is written.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PortRef {
    pub kind: BackendKind,
    pub name: String,
    pub namespace: String,
    pub labels: BTreeMap<String, String>,
    pub port: Option<u32>,
    /// Empty when it is not written.
    pub section: String,
}

impl BackendKey {
    /// `None` for what is no destination.
    pub fn of(written: &BackendRef) -> Option<Self> {
        let service = |more: Option<&Tags>| {
            let mut tags = more.cloned().unwrap_or_default();
            tags.insert(tags::SERVICE.to_owned(), written.name.clone().filter(|name| !name.is_empty())?);
            Some(Self::Service(tags))
        };
        let port = |kind| Some(Self::Port(PortRef::of(kind, written)));
        match written.kind.as_ref()?.known()? {
            TargetKind::MeshService if PortRef::is_meant_by(written) => port(BackendKind::MeshService),
            TargetKind::MeshService => service(None),
            TargetKind::MeshServiceSubset => service(written.tags.as_ref()),
            TargetKind::MeshExternalService => port(BackendKind::MeshExternalService),
            TargetKind::MeshMultiZoneService => port(BackendKind::MeshMultiZoneService),
            _ => None,
        }
    }
}

impl PortRef {
    /// A MeshService is a resource where its port is written, and a `kuma.io/service` otherwise.
    fn is_meant_by(written: &BackendRef) -> bool {
        let given = |text: &Option<String>| text.as_ref().is_some_and(|text| !text.is_empty());
        written.port.is_some() || given(&written.section_name)
    }

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

/// Who serves a destination, and who asks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Endpoints {
    pub list: Vec<Endpoint>,
    /// The zone of the caller.
    pub zone: Arc<str>,
    /// The tags of the caller that a policy asked for.
    pub caller: Tags,
    /// Envoy's own when missing.
    pub overprovisioning_factor: Option<u32>,
}

/// Endpoints of one priority, zone and sub-zone are one locality.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Endpoint {
    pub priority: u32,
    /// Empty when there are no zones.
    pub zone: Arc<str>,
    /// A part of the zone that is preferred to others; empty when there are none.
    pub sub_zone: Arc<str>,
    /// Of the locality, among those of its priority.
    pub locality_weight: Option<u32>,
    pub address: Arc<str>,
    pub port: u32,
    pub weight: u32,
    /// Without `kuma.io/service`.
    pub tags: Arc<Tags>,
}
