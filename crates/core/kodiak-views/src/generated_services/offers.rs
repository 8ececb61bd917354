//! What each Dataplane offers to a service: the ports of its inbounds.

use std::collections::BTreeMap;

use kodiak_model::{
    IntOrString,
    dns::dns_1035_label,
    kinds::{dataplane::Inbound, mesh_service::Port},
};

use super::Proxy;

/// The ports at which one Dataplane serves a service.
pub(super) struct Offer<'a> {
    pub(super) proxy: &'a str,
    pub(super) ports: Vec<Port>,
}

/// The offers for each service, never none, from the oldest Dataplane to the newest. A service that cannot be the name
/// of a MeshService gets none.
pub(super) fn offers<'a>(proxies: &[Proxy<'a>]) -> BTreeMap<&'a str, Vec<Offer<'a>>> {
    let mut by_age: Vec<&Proxy<'_>> = proxies.iter().collect();
    by_age.sort_by_key(|proxy| (proxy.created, proxy.name));
    let mut offers: BTreeMap<&str, Vec<Offer<'_>>> = BTreeMap::new();
    for proxy in by_age {
        for (service, ports) in ports_of(proxy.inbounds) {
            offers.entry(service).or_default().push(Offer { proxy: proxy.name, ports });
        }
    }
    offers
}

/// A port that is served at several addresses counts once.
fn ports_of(inbounds: &[Inbound]) -> BTreeMap<&str, Vec<Port>> {
    let mut services: BTreeMap<&str, Vec<Port>> = BTreeMap::new();
    for inbound in inbounds {
        let Some(service) = inbound.service().filter(|service| dns_1035_label(service).is_empty()) else { continue };
        let ports = services.entry(service).or_default();
        if ports.iter().all(|port| port.port != inbound.port) {
            ports.push(port_of(inbound));
        }
    }
    services
}

fn port_of(inbound: &Inbound) -> Port {
    Port {
        name: Some(inbound.section_name()),
        port: inbound.port,
        target_port: Some(IntOrString::Int(i64::from(inbound.port))),
        app_protocol: inbound.protocol().as_str().to_owned(),
    }
}

/// Whether they are the same in any order.
pub(super) fn same_ports(one: &[Port], other: &[Port]) -> bool {
    one.len() == other.len() && one.iter().all(|port| other.contains(port))
}
