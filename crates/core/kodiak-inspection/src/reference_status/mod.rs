//! References of a Dataplane and their current targets: in its reachable lists and in its outbounds.
//!
//! Nothing is ignored silently: a reference without a target or without effect is reported with advice. It is no error
//! of the Dataplane, because targets may be created later.

mod lists;
#[cfg(test)]
mod tests;
mod why;

use std::{collections::BTreeSet, sync::Arc};

use kodiak_model::{
    Kri, Labels, LegacyName,
    kinds::{
        dataplane::{Dataplane, TransparentProxying},
        mesh::MeshServicesMode,
    },
    labels,
};
use kodiak_rules::Proxy;
use kodiak_world::Destination;

use kodiak_services::reachable::{Wanted, has_legacy_destinations, is_served_in};

/// Inputs.
#[derive(Clone, Copy)]
pub struct ReferenceContext<'a> {
    pub mode: MeshServicesMode,
    /// Those of the mesh that [`could_be_meant`], or all of them.
    pub destinations: &'a [Arc<Destination>],
    /// How many there are in the mesh.
    pub objects: usize,
    /// Whether a proxy serves this value of `kuma.io/service`.
    pub is_served: &'a dyn Fn(&str) -> bool,
    /// Whether the proxy is transparent; `None` while that is unknown.
    pub redirected: Option<bool>,
}

/// One entry of a Dataplane, or a list of entries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reference {
    /// As it is written in the Dataplane.
    pub path: String,
    /// KRIs of ports, or values of `kuma.io/service`.
    pub means: Vec<String>,
    pub trouble: Option<ReferenceProblem>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReferenceProblem {
    pub reason: Why,
    /// Problem, with advice.
    pub message: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// Its target does not exist.
    Unresolved,
    /// An outbound that matches more than one port has no effect.
    Ambiguous,
    /// It is not used.
    NoEffect,
    /// A list of services by their tags hides all objects.
    HidesObjects,
}

impl ReferenceProblem {
    fn new(reason: Why, message: impl Into<String>) -> Self {
        Self { reason, message: message.into() }
    }
}

/// All entries. A list comes before its entries, where something is to be said of it as a whole.
pub fn of(proxy: &Proxy, context: ReferenceContext<'_>) -> Vec<Reference> {
    let mut references = Vec::new();
    if let Some(transparent) = transparent(&proxy.dataplane) {
        references.extend(lists::backends(transparent, proxy, context));
        references.extend(lists::services(transparent, proxy, context));
    }
    references.extend(outbounds(proxy, context));
    references
}

/// Whether there is anything to say of it.
pub fn has_references(dataplane: &Dataplane, mode: MeshServicesMode) -> bool {
    let lists = transparent(dataplane)
        .is_some_and(|lists| lists.reachable_backends.is_some() || !lists.reachable_services.is_empty());
    let with_tags = !has_legacy_destinations(mode);
    lists || dataplane.outbounds().iter().any(|outbound| outbound.backend_ref.is_some() || with_tags)
}

/// Whether a destination with this name and these labels is of any interest: it may be meant, or help to say why
/// nothing is. All others need not be read.
pub fn could_be_meant(dataplane: &Dataplane, name: &str, own: &Labels) -> bool {
    let name = labels::display_name(own, name);
    let shares_label =
        |wanted: &Labels| wanted.iter().any(|(key, value)| own.get(key).is_some_and(|known| known == value));
    let by_list = transparent(dataplane).is_some_and(|lists| {
        let mut refs = lists.reachable_backends.iter().flat_map(|backends| &backends.refs);
        refs.any(|wanted| {
            let by_labels = |labels: &Labels| labels.is_empty() || shares_label(labels);
            wanted.name == name || wanted.labels.as_ref().is_some_and(by_labels)
        }) || lists
            .reachable_services
            .iter()
            .any(|service| service == name || LegacyName::parse(service).is_some_and(|legacy| legacy.name == name))
    });
    let mut outbounds = dataplane.outbounds().iter().filter_map(|outbound| outbound.backend_ref.as_ref());
    by_list || outbounds.any(|wanted| wanted.name == name || shares_label(&wanted.labels))
}

fn transparent(dataplane: &Dataplane) -> Option<&TransparentProxying> {
    dataplane.networking.as_ref()?.transparent_proxying.as_ref()
}

fn outbounds(proxy: &Proxy, context: ReferenceContext<'_>) -> Vec<Reference> {
    let mut references = Vec::new();
    for (n, outbound) in proxy.dataplane.outbounds().iter().enumerate() {
        let Some(reference) = &outbound.backend_ref else {
            // With legacy destinations, an outbound with tags has a cluster, whether anybody serves it or not.
            if !has_legacy_destinations(context.mode) {
                let trouble = Some(ReferenceProblem::new(Why::NoEffect, why::outbound_with_tags(outbound)));
                let path = format!("networking.outbound[{n}].tags");
                references.push(Reference { path, means: Vec::new(), trouble });
            }
            continue;
        };
        let port = Some(reference.port).filter(|port| *port != 0);
        let asked = Asked::new(Wanted::by_outbound(reference, proxy), &reference.namespace, port, proxy);
        let means = asked.means(context);
        let trouble = if context.redirected == Some(true) {
            Some(ReferenceProblem::new(Why::NoEffect, why::OUTBOUND_OF_REDIRECTED))
        } else if proxy.dataplane.is_inbound_address(outbound.address(), outbound.port) {
            Some(ReferenceProblem::new(Why::NoEffect, why::own_address(outbound)))
        } else {
            match means.as_slice() {
                [] => Some(ReferenceProblem::new(Why::Unresolved, why::unresolved(&asked, context))),
                [_] => None,
                several => Some(ReferenceProblem::new(Why::Ambiguous, why::ambiguous(several))),
            }
        };
        references.push(Reference { path: format!("networking.outbound[{n}].backendRef"), means, trouble });
    }
    references
}

/// A reference to a resource, and from where it is asked.
struct Asked<'a> {
    wanted: Wanted,
    namespace: &'a str,
    zone: &'a str,
    port: Option<u32>,
}

impl<'a> Asked<'a> {
    fn new(wanted: Wanted, namespace: &'a str, port: Option<u32>, proxy: &'a Proxy) -> Self {
        let own = proxy.meta();
        let namespace = if namespace.is_empty() { own.namespace().unwrap_or_default() } else { namespace };
        Self { wanted, namespace, zone: own.zone().unwrap_or_default(), port }
    }

    /// Targets as proxies see them. Of two resources with one KRI they see one.
    fn means(&self, context: ReferenceContext<'_>) -> Vec<String> {
        let zone = Some(self.zone).filter(|zone| !zone.is_empty());
        let served = context.destinations.iter().filter(|destination| is_served_in(destination, zone));
        let ports = served.flat_map(|destination| destination.ports.iter().map(move |port| (destination, port)));
        let meant = ports.filter(|(destination, port)| self.wanted.takes(destination, port));
        let kris: BTreeSet<String> = meant
            .map(|(destination, port)| Kri { section: port.section.clone(), ..destination.kri.clone() }.to_string())
            .collect();
        kris.into_iter().collect()
    }
}
