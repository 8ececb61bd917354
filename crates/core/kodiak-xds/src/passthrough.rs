//! Redirected connections without a matching listener.

mod inspection;
mod leaves;
mod matched;
mod refused;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use kodiak_envoy::envoy::config::cluster::v3::Cluster;
use kodiak_envoy::envoy::config::cluster::v3::cluster::{DiscoveryType, LbPolicy};
use kodiak_envoy::envoy::config::core::v3::TrafficDirection;
use kodiak_envoy::envoy::config::listener::v3::{FilterChain, FilterChainMatch, Listener};
use kodiak_model::Protocol;
use kodiak_policies::target::{self, Backends, Carrier, Destination, Tcp};

pub use refused::REASON;

use self::refused::RefusingMode;
use crate::address::{self, ANY_IPV4, ANY_IPV6};
use crate::input::{OutsideTraffic, Passthrough};
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
        if passthrough.outside == OutsideTraffic::Allowed {
            all.push(original_destination(family.outbound));
        }
    }
    if let OutsideTraffic::Matched(matches) = &passthrough.outside {
        all.extend(matched::clusters(matches, passthrough.ipv6));
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
    // Virtual addresses are IPv4; clients connect to them over IPv4 even if DNS answers with mapped IPv6 addresses.
    let trimmed = passthrough.trimmed.as_ref().filter(|client| !family.ipv6 && !client.ranges.is_empty());
    let answered = trimmed.map(|client| {
        let explanation = trimmed::explanation(&passthrough.mesh, &client.name);
        trimmed::chain(&client.ranges, &explanation)
    });
    let listener = Listener {
        traffic_direction: TrafficDirection::Outbound.into(),
        ..redirected(family.outbound, family.any, passthrough.outbound_port)
    };
    let to = |cluster: &str| answered.clone().into_iter().chain([outside(passthrough, family, cluster)]).collect();
    match &passthrough.outside {
        OutsideTraffic::Allowed => Listener { filter_chains: to(family.outbound), ..listener },
        OutsideTraffic::RefusedByMesh => Listener { filter_chains: to(names::NO_DESTINATION), ..listener },
        OutsideTraffic::RefusedByPolicy => Listener {
            filter_chains: answered.into_iter().collect(),
            default_filter_chain: Some(refused::chain(RefusingMode::None)),
            ..listener
        },
        OutsideTraffic::Matched(matches) => {
            let ranges = trimmed.map_or(&[][..], |client| &client.ranges);
            matched::listener(listener, matches, family.ipv6, ranges, answered.as_ref())
        }
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
