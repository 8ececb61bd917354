//! Clusters and their endpoints.

use std::collections::BTreeMap;

use kodiak_envoy::envoy::config::cluster::v3::Cluster;
use kodiak_envoy::envoy::config::cluster::v3::cluster::{ClusterDiscoveryType, DiscoveryType};
use kodiak_envoy::envoy::config::core::v3::{HealthStatus, Metadata, TransportSocket};
use kodiak_envoy::envoy::config::endpoint::v3::lb_endpoint::HostIdentifier;
use kodiak_envoy::envoy::config::endpoint::v3::{ClusterLoadAssignment, LbEndpoint, LocalityLbEndpoints};
use kodiak_envoy::envoy::extensions::upstreams::http::v3::HttpProtocolOptions;
use kodiak_envoy::google::protobuf::Struct;
use kodiak_envoy::unpack;

use super::address::{self, Destination};
use super::answer::Endpoint;
use super::refusal::{Refusal, refuse_if};
use super::tls::{self, Secrets};

const SOCKET_MATCH: &str = "envoy.transport_socket_match";
const HTTP_OPTIONS: &str = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions";

pub(super) struct Clusters {
    by_name: BTreeMap<String, Cluster>,
    assignments: BTreeMap<String, ClusterLoadAssignment>,
    secrets: Secrets,
}

impl Clusters {
    pub(super) fn new(clusters: Vec<Cluster>, assignments: Vec<ClusterLoadAssignment>) -> Self {
        Self {
            by_name: clusters.into_iter().map(|cluster| (cluster.name.clone(), cluster)).collect(),
            assignments: assignments.into_iter().map(|one| (one.cluster_name.clone(), one)).collect(),
            secrets: Secrets::default(),
        }
    }

    pub(super) fn with_secrets(self, secrets: Secrets) -> Self {
        Self { secrets, ..self }
    }

    /// Endpoints by priority; never an empty list. `subset` is the route's metadata match.
    pub(super) fn endpoints(
        &self,
        name: &str,
        to: Destination<'_>,
        subset: Option<&Metadata>,
    ) -> Result<Vec<Endpoint>, Refusal> {
        let cluster = self.by_name.get(name).ok_or_else(|| Refusal::NoCluster(name.to_owned()))?;
        let by_subset = cluster.lb_subset_config.is_some() && subset.is_some();
        refuse_if(by_subset, &format!("subsets of cluster {name}"))?;
        refuse_if(cluster.transport_socket_matcher.is_some(), "the matcher of transport sockets")?;
        refuse_if(!cluster.filters.is_empty(), &format!("filters of cluster {name}"))?;
        if let Some(options) = cluster.typed_extension_protocol_options.get(HTTP_OPTIONS) {
            let options: HttpProtocolOptions = unpack(options).map_err(tls::malformed)?;
            refuse_if(!options.http_filters.is_empty(), &format!("HTTP filters of cluster {name}"))?;
        }
        let mut endpoints = match discovery(cluster)? {
            DiscoveryType::Static => self.of_assignment(cluster, cluster.load_assignment.as_ref(), false)?,
            DiscoveryType::StrictDns | DiscoveryType::LogicalDns => {
                self.of_assignment(cluster, cluster.load_assignment.as_ref(), true)?
            }
            DiscoveryType::Eds => {
                let service = cluster.eds_cluster_config.as_ref().map(|config| config.service_name.as_str());
                let service = service.filter(|service| !service.is_empty()).unwrap_or(name);
                self.of_assignment(cluster, self.assignments.get(service), false)?
            }
            DiscoveryType::OriginalDst => vec![Endpoint {
                address: to.address.to_owned(),
                port: to.port,
                hostname: String::new(),
                zone: String::new(),
                priority: 0,
                weight: 1,
                locality_weight: None,
                tls: tls::upstream(cluster.transport_socket.as_ref(), &self.secrets)?,
            }],
        };
        endpoints.sort_by_key(|endpoint| endpoint.priority);
        if endpoints.is_empty() { Err(Refusal::NoEndpoints(name.to_owned())) } else { Ok(endpoints) }
    }

    fn of_assignment(
        &self,
        cluster: &Cluster,
        assignment: Option<&ClusterLoadAssignment>,
        resolved: bool,
    ) -> Result<Vec<Endpoint>, Refusal> {
        let mut endpoints = Vec::new();
        for locality in assignment.into_iter().flat_map(|assignment| &assignment.endpoints) {
            refuse_if(locality.lb_config.is_some(), "endpoints that a locality does not hold itself")?;
            for endpoint in locality.lb_endpoints.iter().filter(|endpoint| is_usable(endpoint)) {
                endpoints.push(self.read(cluster, locality, endpoint, resolved)?);
            }
        }
        Ok(endpoints)
    }

    fn read(
        &self,
        cluster: &Cluster,
        locality: &LocalityLbEndpoints,
        endpoint: &LbEndpoint,
        resolved: bool,
    ) -> Result<Endpoint, Refusal> {
        let Some(HostIdentifier::Endpoint(host)) = &endpoint.host_identifier else {
            return Err(Refusal::unsupported(format!("endpoints of {} by name", cluster.name)));
        };
        let (address, port) = address::tcp(host.address.as_ref())
            .ok_or_else(|| Refusal::unsupported(format!("endpoints of {} that are no TCP sockets", cluster.name)))?;
        let named = if host.hostname.is_empty() && resolved { address } else { host.hostname.as_str() };
        Ok(Endpoint {
            address: address.to_owned(),
            port,
            hostname: named.to_owned(),
            zone: locality.locality.as_ref().map(|locality| locality.zone.clone()).unwrap_or_default(),
            priority: locality.priority,
            weight: endpoint.load_balancing_weight.unwrap_or(1),
            locality_weight: locality.load_balancing_weight,
            tls: tls::upstream(socket(cluster, endpoint), &self.secrets)?,
        })
    }
}

fn discovery(cluster: &Cluster) -> Result<DiscoveryType, Refusal> {
    let unsupported = || Refusal::unsupported(format!("the type of cluster {}", cluster.name));
    match &cluster.cluster_discovery_type {
        None => Ok(DiscoveryType::Static),
        Some(ClusterDiscoveryType::Type(number)) => DiscoveryType::try_from(*number).map_err(|_| unsupported()),
        Some(ClusterDiscoveryType::ClusterType(_)) => Err(unsupported()),
    }
}

fn is_usable(endpoint: &LbEndpoint) -> bool {
    match HealthStatus::try_from(endpoint.health_status) {
        Ok(HealthStatus::Unknown | HealthStatus::Healthy | HealthStatus::Degraded) => true,
        Ok(HealthStatus::Unhealthy | HealthStatus::Draining | HealthStatus::Timeout) | Err(_) => false,
    }
}

/// The first transport socket whose match fits the endpoint's metadata, or else that of the cluster.
fn socket<'a>(cluster: &'a Cluster, endpoint: &LbEndpoint) -> Option<&'a TransportSocket> {
    let metadata = endpoint.metadata.as_ref().and_then(|metadata| metadata.filter_metadata.get(SOCKET_MATCH));
    let none = Struct::default();
    let has = metadata.unwrap_or(&none);
    let meets = |wanted: &Struct| wanted.fields.iter().all(|(key, value)| has.fields.get(key) == Some(value));
    let matched = cluster.transport_socket_matches.iter().find(|one| one.r#match.as_ref().is_none_or(meets));
    matched.map_or(cluster.transport_socket.as_ref(), |matched| matched.transport_socket.as_ref())
}
