//! Migration progress of one consumer.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use kodiak_model::{kinds::mesh::MeshServicesMode, tags};
use kodiak_rules::{Matched, Proxy, Shadow};
use kodiak_world::redirects_outbound;

use super::{Landscape, Outcome, PolicyStanding};
use kodiak_inspection::inspect::MeshView;
use kodiak_services::reachable::{Reach, Wanted, is_served_in};

#[derive(Debug, Clone, PartialEq)]
pub struct Consumer {
    pub name: String,
    pub mode: MeshServicesMode,
    pub lists: Lists,
    pub connected: bool,
    /// The services that it has outbounds for, by their tags.
    pub old: Vec<String>,
    /// How many ports of objects it has outbounds for.
    pub new: usize,
    /// Policies about its calls that use old names and nothing new beside them: `MeshTimeout slow`.
    pub policies: Vec<String>,
    /// Routes of its calls that use old names.
    pub routes: Vec<String>,
    /// Services of `old` that it calls in other zones too, and with a MeshService would call in one.
    pub cross_zone: Vec<String>,
}

/// Source of the destinations of a Dataplane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lists {
    Nothing,
    /// `reachableServices`: tags, and no objects.
    Services,
    /// `reachableBackends`.
    Backends,
    /// Outbounds with `backendRef`.
    Outbounds,
}

/// Facts about a proxy that are not in its Dataplane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Known {
    pub connected: bool,
    /// Connections are redirected to it, as it says itself; `None` where it does not say.
    pub redirected: Option<bool>,
}

impl Consumer {
    /// `policies` are those of its mesh that have old references.
    pub fn of(proxy: &Proxy, known: Known, landscape: &Landscape<'_>, policies: &[PolicyStanding]) -> Self {
        let written = || redirects_outbound(&proxy.dataplane, None).unwrap_or_default();
        let redirected = known.redirected.unwrap_or_else(written);
        let old = old_services(proxy, redirected, landscape);
        let new = new_ports(proxy, redirected, landscape);
        // Without calls by tags, old names may still stand for objects.
        let calls = |service: &str| service.is_empty() || old.contains(service) || (old.is_empty() && new > 0);
        let (own_policies, routes) = concerned(proxy, calls, landscape, policies);
        Self {
            name: proxy.name.to_string(),
            mode: landscape.view.mode,
            lists: Lists::of(proxy),
            connected: known.connected,
            cross_zone: old.iter().filter(|service| is_elsewhere(service, proxy, landscape)).cloned().collect(),
            old: old.into_iter().collect(),
            new,
            policies: own_policies,
            routes,
        }
    }
}

impl Lists {
    fn of(proxy: &Proxy) -> Self {
        if proxy.dataplane.outbounds().iter().any(|outbound| outbound.backend_ref.is_some()) {
            return Self::Outbounds;
        }
        let transparent = proxy.dataplane.networking.as_ref().and_then(|all| all.transparent_proxying.as_ref());
        match transparent {
            Some(all) if all.reachable_backends.is_some() => Self::Backends,
            Some(all) if !all.reachable_services.is_empty() => Self::Services,
            Some(_) | None => Self::Nothing,
        }
    }
}

/// Where connections are redirected, all services that it lists, or all there are; else what its outbounds say.
fn old_services(proxy: &Proxy, redirected: bool, landscape: &Landscape<'_>) -> BTreeSet<String> {
    if !redirected {
        let outbounds = proxy.dataplane.outbounds().iter();
        return outbounds.filter_map(|outbound| outbound.tags.get(tags::SERVICE).cloned()).collect();
    }
    if landscape.view.mode == MeshServicesMode::Exclusive {
        return BTreeSet::new();
    }
    let transparent = proxy.dataplane.networking.as_ref().and_then(|all| all.transparent_proxying.as_ref());
    let listed = transparent.map(|all| &all.reachable_services).filter(|list| !list.is_empty());
    let wanted = |service: &&&str| listed.is_none_or(|list| list.iter().any(|one| one == **service));
    landscape.tagged.keys().filter(wanted).map(|service| (*service).to_owned()).collect()
}

/// Virtual addresses are of use only where connections are redirected; without, there are those that are written.
fn new_ports(proxy: &Proxy, redirected: bool, landscape: &Landscape<'_>) -> usize {
    let MeshView { mode, destinations, .. } = landscape.view;
    let here = destinations.iter().filter(|one| is_served_in(one, proxy.meta().zone()));
    let ports: Vec<_> = here.flat_map(|one| one.ports.iter().map(move |port| (one, port))).collect();
    if redirected {
        let reach = Reach::of(*mode, proxy);
        return ports.iter().filter(|(one, port)| !one.vips.is_empty() && reach.takes(one, port)).count();
    }
    let written = proxy.dataplane.outbounds().iter().filter_map(|outbound| outbound.backend_ref.as_ref());
    let leads_to_one = |wanted: &Wanted| ports.iter().filter(|(one, port)| wanted.takes(one, port)).count() == 1;
    written.filter(|reference| leads_to_one(&Wanted::by_outbound(reference, proxy))).count()
}

/// Whether calls go to another zone than the caller's.
fn is_elsewhere(service: &str, proxy: &Proxy, landscape: &Landscape<'_>) -> bool {
    let inbounds = proxy.dataplane.inbounds().iter();
    let mut own = inbounds.filter_map(|inbound| inbound.tags.get(tags::ZONE).map(String::as_str));
    let own = proxy.meta().zone().or_else(|| own.next()).unwrap_or_default();
    landscape.tagged.get(service).is_some_and(|tagged| tagged.zones.iter().any(|zone| *zone != own))
}

/// The policies and the routes that select the proxy, and speak of what it calls.
fn concerned(
    proxy: &Proxy,
    calls: impl Fn(&str) -> bool,
    landscape: &Landscape<'_>,
    policies: &[PolicyStanding],
) -> (Vec<String>, Vec<String>) {
    let mut by_kind: BTreeMap<&str, Arc<Matched>> = BTreeMap::new();
    let (mut own, mut routes) = (Vec::new(), Vec::new());
    for policy in policies.iter().filter(|policy| policy.findings.iter().any(|finding| calls(&finding.service))) {
        let matched = || landscape.view.policy_index.matched(policy.kind, &proxy.name, Shadow::Ignored);
        let matched = by_kind.entry(policy.kind).or_insert_with(matched);
        if !matched.proxy.iter().any(|matched| *matched.name == *policy.name) {
            continue;
        }
        let shown = format!("{} {}", policy.kind, policy.name);
        if policy.has(Outcome::Examine) {
            routes.push(shown);
        } else if policy.has(Outcome::Converted) || policy.has(Outcome::Unclear) {
            own.push(shown);
        }
    }
    (own, routes)
}
