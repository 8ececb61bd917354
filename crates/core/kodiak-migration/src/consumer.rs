//! Migration progress of one consumer.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use kodiak_model::{kinds::mesh::MeshServicesMode, tags};
use kodiak_rules::{Matched, Proxy, Shadow};
use kodiak_world::{
    destination::{Destination, DestinationPort},
    redirects_outbound,
};

use super::{Break, Landscape, Outcome, PolicyStanding, breaks};
use kodiak_services::reachable::Outbounds;

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
    /// For each of `old`, the hostnames of the objects that stand for it and that this consumer reaches.
    pub replacements: BTreeMap<String, Vec<String>>,
    /// Destinations that its Dataplane names and that it loses in another mode, or has lost in this one.
    pub breaks: Vec<Break>,
}

/// Source of the destinations of a Dataplane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lists {
    Nothing,
    /// `reachableServices`: tags, and the objects that stand for them.
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
        let Outbounds { services, ports } = landscape.outbounds(landscape.view.mode, proxy, redirected);
        let old: BTreeSet<String> = services.into_iter().filter_map(|mut tags| tags.remove(tags::SERVICE)).collect();
        let new = ports.len();
        // Without calls by tags, old names may still stand for objects.
        let calls = |service: &str| service.is_empty() || old.contains(service) || (old.is_empty() && new > 0);
        let (own_policies, routes) = concerned(proxy, calls, landscape, policies);
        Self {
            name: proxy.name.to_string(),
            mode: landscape.view.mode,
            lists: Lists::of(proxy),
            connected: known.connected,
            replacements: replacements(proxy, &old, &ports, landscape),
            breaks: breaks::of(proxy, redirected, landscape),
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

fn replacements(
    proxy: &Proxy,
    old: &BTreeSet<String>,
    ports: &[(&Destination, &DestinationPort)],
    landscape: &Landscape<'_>,
) -> BTreeMap<String, Vec<String>> {
    let of = |service: &String| {
        let stand_ins = ports.iter().filter(|(object, port)| landscape.stands_for(service, object, port, proxy));
        let mut hostnames: Vec<String> =
            stand_ins.flat_map(|(object, _)| object.hostnames.iter().map(ToString::to_string)).collect();
        hostnames.sort();
        hostnames.dedup();
        (service.clone(), hostnames)
    };
    old.iter().map(of).collect()
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
        let matched = || landscape.view.policy_index.matched(&policy.kind, &proxy.name, Shadow::Ignored);
        let matched = by_kind.entry(&policy.kind).or_insert_with(matched);
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
