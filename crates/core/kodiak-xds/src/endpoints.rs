//! Endpoints of a service.

use kodiak_envoy::envoy::config::core::v3::Locality;
use kodiak_envoy::envoy::config::endpoint::v3::cluster_load_assignment::Policy;
use kodiak_envoy::envoy::config::endpoint::v3::{ClusterLoadAssignment, LbEndpoint, LocalityLbEndpoints};

use crate::input::{Assignment, Endpoint};
use crate::{address, clusters, metadata, names};

/// Metadata keys: the first is for subset load balancing, the second for selecting the transport socket.
const TAGS: &[&str] = &["envoy.lb", SOCKET_MATCH];
const SOCKET_MATCH: &str = "envoy.transport_socket_match";

/// Endpoints are sorted, so each locality is a contiguous range.
pub fn assignment(assignment: &Assignment) -> ClusterLoadAssignment {
    let locality_of = |each: &Endpoint| (each.priority, each.zone.clone(), each.sub_zone.clone());
    let groups = assignment.endpoints.chunk_by(|a, b| locality_of(a) == locality_of(b));
    let policy = |factor| Policy { overprovisioning_factor: Some(factor), ..Policy::default() };
    ClusterLoadAssignment {
        cluster_name: assignment.cluster.to_string(),
        endpoints: groups.map(locality).collect(),
        policy: assignment.overprovisioning_factor.map(policy),
        ..ClusterLoadAssignment::default()
    }
}

fn locality(group: &[Endpoint]) -> LocalityLbEndpoints {
    let first = &group[0]; // `chunk_by` gives no empty groups
    let place = Locality { zone: first.zone.to_string(), sub_zone: first.sub_zone.to_string(), ..Locality::default() };
    LocalityLbEndpoints {
        locality: (place != Locality::default()).then_some(place),
        load_balancing_weight: first.locality_weight,
        priority: first.priority,
        lb_endpoints: group.iter().map(endpoint).collect(),
        ..LocalityLbEndpoints::default()
    }
}

fn endpoint(endpoint: &Endpoint) -> LbEndpoint {
    let mut metadata = metadata::under(TAGS, &endpoint.tags);
    if endpoint.plaintext {
        let socket = metadata.filter_metadata.entry(SOCKET_MATCH.to_owned()).or_default();
        socket.fields.insert(names::PLAINTEXT.to_owned(), metadata::boolean(true));
    }
    LbEndpoint {
        host_identifier: Some(clusters::endpoint(address::tcp(&endpoint.address, endpoint.port))),
        load_balancing_weight: Some(endpoint.weight),
        metadata: Some(metadata),
        ..LbEndpoint::default()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::testing::{check, tags};

    fn endpoint(priority: u32, zone: &str, address: &str, weight: u32) -> Endpoint {
        let tags = Arc::new(tags(&[("kuma.io/zone", zone), ("version", "v1")]));
        Endpoint {
            priority,
            zone: zone.into(),
            address: address.into(),
            port: 8080,
            weight,
            tags,
            ..Endpoint::default()
        }
    }

    #[test]
    fn zones_are_localities_and_other_zones_have_lower_priority() {
        let endpoints = [endpoint(0, "east", "10.0.0.5", 1), endpoint(1, "west", "203.0.113.10", 3)];
        check(
            &assignment(&Assignment {
                cluster: "backend".into(),
                endpoints: endpoints.into(),
                overprovisioning_factor: None,
            }),
            r"
            cluster_name: backend
            endpoints:
            - locality: {zone: east}
              lb_endpoints:
              - load_balancing_weight: 1
                endpoint: {address: {socket_address: {address: 10.0.0.5, port_value: 8080}}}
                metadata:
                  filter_metadata:
                    envoy.lb: {kuma.io/zone: east, version: v1}
                    envoy.transport_socket_match: {kuma.io/zone: east, version: v1}
            - locality: {zone: west}
              priority: 1
              lb_endpoints:
              - load_balancing_weight: 3
                endpoint: {address: {socket_address: {address: 203.0.113.10, port_value: 8080}}}
                metadata:
                  filter_metadata:
                    envoy.lb: {kuma.io/zone: west, version: v1}
                    envoy.transport_socket_match: {kuma.io/zone: west, version: v1}
            ",
        );
    }

    #[test]
    fn endpoint_in_plaintext_is_marked_as_no_tag_can_mark_it() {
        let tagged = Arc::new(tags(&[(names::PLAINTEXT, "true")]));
        let plaintext = Endpoint { plaintext: true, ..endpoint(0, "", "10.0.0.5", 1) };
        let claimed = Endpoint { tags: tagged, ..endpoint(0, "", "10.0.0.6", 1) };
        let assigned = assignment(&Assignment {
            cluster: "backend".into(),
            endpoints: [plaintext, claimed].into(),
            overprovisioning_factor: None,
        });
        let mark = |n: usize| {
            let metadata = assigned.endpoints[0].lb_endpoints[n].metadata.as_ref().unwrap();
            metadata.filter_metadata[SOCKET_MATCH].fields[names::PLAINTEXT].clone()
        };
        assert_eq!(mark(0), metadata::boolean(true));
        assert_ne!(mark(1), metadata::boolean(true));
    }

    #[test]
    fn without_zones_there_is_one_locality() {
        let endpoints = [endpoint(0, "", "10.0.0.5", 1), endpoint(0, "", "10.0.0.6", 1)];
        let assigned = assignment(&Assignment {
            cluster: "backend".into(),
            endpoints: endpoints.into(),
            overprovisioning_factor: None,
        });
        assert_eq!(assigned.endpoints.len(), 1);
        assert_eq!(assigned.endpoints[0].locality, None);
        assert_eq!(assigned.endpoints[0].lb_endpoints.len(), 2);
        let nobody =
            assignment(&Assignment { cluster: "backend".into(), endpoints: [].into(), overprovisioning_factor: None });
        assert!(nobody.endpoints.is_empty());
    }
}
