//! Simulation of a mode for one consumer: destinations that its Dataplane names and that it would lose.
//!
//! A destination that no Dataplane names is in use only if it has traffic, which the plan reads from Envoy.

use kodiak_model::{Kri, kinds::mesh::MeshServicesMode, tags};
use kodiak_rules::Proxy;
use kodiak_services::reachable::Outbounds;

use super::Landscape;

/// Destination that a consumer loses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Break {
    /// In this mode.
    pub mode: MeshServicesMode,
    /// Value of `kuma.io/service`, or KRI of a port.
    pub destination: String,
    pub reason: BreakReason,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BreakReason {
    /// An outbound with tags has no effect.
    OutboundWithTags,
    /// No object stands for the service that it lists.
    NoObject,
    /// An object stands for the service that it lists, but this consumer does not reach it.
    NotReachable,
    /// It has no `reachableBackends`, so that it reaches no object.
    NotListed,
}

pub(super) fn of(proxy: &Proxy, redirected: bool, landscape: &Landscape<'_>) -> Vec<Break> {
    let mut breaks = in_exclusive(proxy, redirected, landscape);
    if landscape.view.mode != MeshServicesMode::Exclusive {
        breaks.extend(in_reachable_backends(proxy, redirected, landscape));
    }
    breaks
}

fn in_exclusive(proxy: &Proxy, redirected: bool, landscape: &Landscape<'_>) -> Vec<Break> {
    let mode = MeshServicesMode::Exclusive;
    let lost = |service: &str, reason| Break { mode, destination: service.to_owned(), reason };
    if !redirected {
        let with_tags = proxy.dataplane.usable_outbounds().filter(|outbound| outbound.backend_ref.is_none());
        let services = with_tags.filter_map(|outbound| outbound.tags.get(tags::SERVICE));
        return services.map(|service| lost(service, BreakReason::OutboundWithTags)).collect();
    }
    let Outbounds { ports, .. } = landscape.outbounds(mode, proxy, redirected);
    let transparent = proxy.dataplane.networking.as_ref().and_then(|all| all.transparent_proxying.as_ref());
    let listed = transparent.map_or(&[][..], |all| &all.reachable_services).iter();
    // Calls of a service that nobody serves fail in every mode.
    let served = listed.filter(|service| landscape.tagged.contains_key(service.as_str()));
    served
        .filter(|service| !ports.iter().any(|(object, port)| landscape.stands_for(service, object, port, proxy)))
        .map(|service| {
            let is_there = !landscape.objects(service).is_empty();
            lost(service, if is_there { BreakReason::NotReachable } else { BreakReason::NoObject })
        })
        .collect()
}

/// Objects that users wrote are visible to all in mode Disabled.
fn in_reachable_backends(proxy: &Proxy, redirected: bool, landscape: &Landscape<'_>) -> Vec<Break> {
    let mode = MeshServicesMode::ReachableBackends;
    let now = landscape.outbounds(landscape.view.mode, proxy, redirected).ports;
    let then = landscape.outbounds(mode, proxy, redirected).ports;
    let lost = now.into_iter().filter(|port| !then.contains(port));
    lost.map(|(object, port)| Break {
        mode,
        destination: Kri { section: port.section.clone(), ..object.kri.clone() }.to_string(),
        reason: BreakReason::NotListed,
    })
    .collect()
}
