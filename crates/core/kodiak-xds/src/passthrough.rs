//! Redirected connections without a matching listener.

use std::collections::BTreeMap;

use kodiak_envoy::envoy::config::cluster::v3::Cluster;
use kodiak_envoy::envoy::config::cluster::v3::cluster::{DiscoveryType, LbPolicy};
use kodiak_envoy::envoy::config::core::v3::TrafficDirection;
use kodiak_envoy::envoy::config::listener::v3::{FilterChain, FilterChainMatch, Listener};
use kodiak_model::Protocol;
use kodiak_policies::target::{self, Backends, Carrier, Destination, Tcp};

use crate::address::{self, ANY_IPV4, ANY_IPV6};
use crate::input::Passthrough;
use crate::{carrier, clusters, filters, inbound, names, outbound, trimmed};

/// Names of the resources of one IP family.
struct Family {
    ipv6: bool,
    any: &'static str,
    inbound: &'static str,
    outbound: &'static str,
}

const IPV4: Family = Family {
    ipv6: false,
    any: ANY_IPV4,
    inbound: names::INBOUND_PASSTHROUGH_IPV4,
    outbound: names::OUTBOUND_PASSTHROUGH_IPV4,
};

const IPV6: Family = Family {
    ipv6: true,
    any: ANY_IPV6,
    inbound: names::INBOUND_PASSTHROUGH_IPV6,
    outbound: names::OUTBOUND_PASSTHROUGH_IPV6,
};

/// They bind the redirected ports, and hand connections over to the listener of the original destination, if there is
/// one. Connections are not redirected when the port is 0.
pub fn listeners(passthrough: &Passthrough) -> Vec<Listener> {
    let mut all = Vec::new();
    for family in families(passthrough) {
        if passthrough.inbound_port != 0 {
            all.push(incoming(passthrough, family));
        }
        if passthrough.outbound_port != 0 {
            all.push(outgoing(passthrough, family));
        }
    }
    all
}

pub fn clusters(passthrough: &Passthrough) -> Vec<Cluster> {
    let mut all = vec![clusters::with_stat_name(clusters::cluster(names::NO_DESTINATION, DiscoveryType::Static))];
    for family in families(passthrough) {
        all.push(Cluster {
            upstream_bind_config: Some(inbound::redirect_free_source(family.ipv6)),
            ..original_destination(family.inbound)
        });
        if passthrough.outbound_allowed {
            all.push(original_destination(family.outbound));
        }
    }
    all
}

fn families(passthrough: &Passthrough) -> impl Iterator<Item = &'static Family> {
    [&IPV4].into_iter().chain(passthrough.ipv6.then_some(&IPV6))
}

fn incoming(passthrough: &Passthrough, family: &Family) -> Listener {
    let through = || chain(family.inbound, family.inbound);
    let filter_chains = match passthrough.inbound_ports.as_deref() {
        None => vec![through()],
        Some([]) => vec![chain(family.inbound, names::NO_DESTINATION)],
        Some(ports) => ports.iter().map(|port| for_port(*port, through())).collect(),
    };
    Listener {
        traffic_direction: TrafficDirection::Inbound.into(),
        enable_reuse_port: Some(passthrough.reuse_port),
        filter_chains,
        ..redirected(family.inbound, family.any, passthrough.inbound_port)
    }
}

fn outgoing(passthrough: &Passthrough, family: &Family) -> Listener {
    let cluster = if passthrough.outbound_allowed { family.outbound } else { names::NO_DESTINATION };
    // Virtual addresses are IPv4; clients connect to them over IPv4 even if DNS answers with mapped IPv6 addresses.
    let trimmed = passthrough.trimmed.as_deref().filter(|ranges| !family.ipv6 && !ranges.is_empty());
    Listener {
        traffic_direction: TrafficDirection::Outbound.into(),
        filter_chains: trimmed.map(trimmed::chain).into_iter().chain([outside(passthrough, family, cluster)]).collect(),
        ..redirected(family.outbound, family.any, passthrough.outbound_port)
    }
}

/// Connections to addresses outside the mesh.
fn outside(passthrough: &Passthrough, family: &Family, cluster: &str) -> FilterChain {
    let proxy = filters::tcp_proxy(family.outbound, cluster, None);
    let mut outbound = target::Outbound {
        mesh: &passthrough.mesh,
        cluster,
        destination: Destination::Outside,
        protocol: Protocol::Tcp,
        carrier: Carrier::Tcp(Box::new(Tcp { proxy, filters: Vec::new() })),
        backends: &Backends::default(),
        route_names: &BTreeMap::new(),
        facts: &passthrough.facts,
    };
    outbound::apply(&passthrough.confs, &mut outbound);
    FilterChain { filters: carrier::seal(outbound.carrier), ..FilterChain::default() }
}

fn redirected(name: &str, address: &str, port: u32) -> Listener {
    Listener {
        name: name.to_owned(),
        address: Some(address::tcp(address, port)),
        use_original_dst: Some(true),
        ..Listener::default()
    }
}

fn for_port(port: u32, chain: FilterChain) -> FilterChain {
    let matched = FilterChainMatch { destination_port: Some(port), ..FilterChainMatch::default() };
    FilterChain { filter_chain_match: Some(matched), ..chain }
}

fn chain(name: &str, cluster: &str) -> FilterChain {
    FilterChain {
        filters: vec![filters::tcp_filter(&filters::tcp_proxy(name, cluster, None))],
        ..FilterChain::default()
    }
}

/// Cluster that connects to the original destination of a connection.
pub(crate) fn original_destination(name: &str) -> Cluster {
    Cluster {
        lb_policy: LbPolicy::ClusterProvided.into(),
        ..clusters::with_stat_name(clusters::cluster(name, DiscoveryType::OriginalDst))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use kodiak_model::Cidr;
    use serde_json::{Value, json};

    use super::*;
    use crate::check::Links;
    use crate::testing::{at, check};

    fn passthrough() -> Passthrough {
        Passthrough {
            inbound_port: 15006,
            outbound_port: 15001,
            ipv6: false,
            reuse_port: true,
            outbound_allowed: true,
            inbound_ports: Some(vec![80]),
            trimmed: None,
            mesh: "default".into(),
            confs: Arc::default(),
            facts: Arc::default(),
        }
    }

    #[test]
    fn redirected_ports_are_bound() {
        let listeners = listeners(&passthrough());
        assert_eq!(listeners.len(), 2);
        check(
            &listeners[0],
            r#"
            name: inbound:passthrough:ipv4
            traffic_direction: INBOUND
            enable_reuse_port: true
            use_original_dst: true
            address: {socket_address: {address: 0.0.0.0, port_value: 15006}}
            filter_chains:
            - filter_chain_match: {destination_port: 80}
              filters:
              - name: envoy.filters.network.tcp_proxy
                typed_config:
                  "@type": type.googleapis.com/envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy
                  stat_prefix: inbound_passthrough_ipv4
                  cluster: inbound:passthrough:ipv4
            "#,
        );
        check(
            &listeners[1],
            r#"
            name: outbound:passthrough:ipv4
            traffic_direction: OUTBOUND
            use_original_dst: true
            address: {socket_address: {address: 0.0.0.0, port_value: 15001}}
            filter_chains:
            - filters:
              - name: envoy.filters.network.tcp_proxy
                typed_config:
                  "@type": type.googleapis.com/envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy
                  stat_prefix: outbound_passthrough_ipv4
                  cluster: outbound:passthrough:ipv4
            "#,
        );
    }

    #[test]
    fn disallowed_traffic_has_no_endpoints() {
        let closed = Passthrough { outbound_allowed: false, inbound_ports: Some(vec![]), ..passthrough() };
        for listener in listeners(&closed) {
            let path = "/filterChains/0/filters/0/typedConfig/cluster";
            assert_eq!(at(&listener, path), names::NO_DESTINATION, "{}", listener.name);
        }
        let names: Vec<_> = clusters(&closed).into_iter().map(|cluster| cluster.name).collect();
        assert_eq!(names, [names::NO_DESTINATION, names::INBOUND_PASSTHROUGH_IPV4]);
    }

    #[test]
    fn virtual_addresses_without_a_listener_have_a_chain_of_their_own() {
        let ranges: [Cidr; 1] = ["240.0.0.0/4".parse().unwrap()];
        let trimmed = Passthrough { trimmed: Some(ranges.into()), ipv6: true, ..passthrough() };
        let listeners = listeners(&trimmed);
        let chains = |name: &str| {
            let listener = listeners.iter().find(|listener| listener.name == name).unwrap();
            assert_eq!(Links::of_listener(listener).faults, [""; 0]);
            let count = listener.filter_chains.len();
            (count, at(listener, "/filterChains/0/filterChainMatch/prefixRanges/0/addressPrefix"))
        };
        assert_eq!(chains(names::OUTBOUND_PASSTHROUGH_IPV4), (2, json!("240.0.0.0")));
        assert_eq!(chains(names::OUTBOUND_PASSTHROUGH_IPV6), (1, Value::Null));
        assert_eq!(chains(names::INBOUND_PASSTHROUGH_IPV4), (1, Value::Null));
    }

    #[test]
    fn all_ports_pass_without_a_list_and_both_ip_families() {
        let open = Passthrough { inbound_ports: None, ipv6: true, ..passthrough() };
        let listeners = listeners(&open);
        assert_eq!(at(&listeners[0], "/filterChains/0/filterChainMatch"), Value::Null);
        assert_eq!(at(&listeners[2], "/address/socketAddress"), json!({"address": "::", "portValue": 15006}));
        let only_out = Passthrough { inbound_port: 0, ..passthrough() };
        assert_eq!(super::listeners(&only_out).len(), 1);
        let clusters = clusters(&open);
        assert_eq!(clusters.len(), 5);
        check(
            &clusters[3],
            r#"
            name: inbound:passthrough:ipv6
            alt_stat_name: inbound_passthrough_ipv6
            type: ORIGINAL_DST
            lb_policy: CLUSTER_PROVIDED
            connect_timeout: 5s
            circuit_breakers: {thresholds: [{track_remaining: true}]}
            upstream_bind_config: {source_address: {address: "::6", port_value: 0}}
            "#,
        );
    }
}
