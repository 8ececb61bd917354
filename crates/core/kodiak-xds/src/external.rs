//! Clusters of MeshExternalServices, without a zone egress.

mod context;
#[cfg(test)]
mod tests;
mod tls_settings;

use std::collections::BTreeMap;

use kodiak_envoy::envoy::config::cluster::v3::Cluster;
use kodiak_envoy::envoy::config::cluster::v3::cluster::DiscoveryType;
use kodiak_envoy::envoy::config::core::v3::Locality;
use kodiak_envoy::envoy::config::endpoint::v3::{ClusterLoadAssignment, LbEndpoint, LocalityLbEndpoints};
use kodiak_model::address::is_ip;

use crate::input::{ExternalCluster, ExternalEndpoint};
use crate::{address, clusters, outbound, tls};

pub use tls_settings::tls;

/// Endpoints are inline: they come from the user, not from discovery.
pub fn cluster(external: &ExternalCluster) -> Cluster {
    let discovery = discovery(&external.endpoints);
    let cluster = Cluster {
        dns_lookup_family: clusters::lookup(discovery, external.ipv6).into(),
        load_assignment: Some(assignment(&external.name, &external.endpoints)),
        transport_socket: external.tls.as_ref().map(|tls_settings| tls::socket(&context::upstream(tls_settings))),
        ..clusters::cluster(&external.name, discovery)
    };
    outbound::finish(cluster, external.upstream, &external.confs)
}

/// One hostname makes all endpoints resolve by DNS; IP addresses resolve to themselves.
fn discovery(endpoints: &[ExternalEndpoint]) -> DiscoveryType {
    if endpoints.iter().all(|endpoint| is_ip(&endpoint.address)) {
        DiscoveryType::Static
    } else {
        DiscoveryType::StrictDns
    }
}

fn assignment(cluster: &str, endpoints: &[ExternalEndpoint]) -> ClusterLoadAssignment {
    let mut groups: BTreeMap<u32, Vec<LbEndpoint>> = BTreeMap::new();
    for endpoint in endpoints {
        groups.entry(endpoint.priority).or_default().push(lb_endpoint(endpoint));
    }
    let named = groups.keys().any(|priority| *priority != 0);
    let group = |(priority, lb_endpoints)| LocalityLbEndpoints {
        locality: named.then(|| Locality { sub_zone: format!("priority-{priority}"), ..Locality::default() }),
        priority,
        lb_endpoints,
        ..LocalityLbEndpoints::default()
    };
    ClusterLoadAssignment {
        cluster_name: cluster.to_owned(),
        endpoints: groups.into_iter().map(group).collect(),
        ..ClusterLoadAssignment::default()
    }
}

fn lb_endpoint(endpoint: &ExternalEndpoint) -> LbEndpoint {
    LbEndpoint {
        host_identifier: Some(clusters::endpoint(address::tcp(&endpoint.address, endpoint.port))),
        load_balancing_weight: Some(1),
        ..LbEndpoint::default()
    }
}
