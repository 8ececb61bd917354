//! Merged policy configuration of a proxy as a whole, of one inbound, or of one destination.

use std::sync::Arc;

use kodiak_model::{Kri, policy::ConfShape};
use kodiak_rules::{
    Matched, Policy, Proxy, inbound,
    outbound::{self, Asked, ResourceRule, ResourceRules},
    subset,
};
use serde::Serialize;
use serde_json::Value;

use kodiak_inspection::inspect::{MeshView, is_for_whole_proxy};

use super::origin::{Origin, entry_origins, origins};

#[derive(Debug, PartialEq, Serialize)]
pub(crate) struct Policies<T> {
    pub(crate) policies: Vec<T>,
}

#[derive(Debug, PartialEq, Serialize)]
pub(crate) struct OfProxy {
    pub(crate) kind: &'static str,
    pub(crate) conf: Value,
    pub(crate) origins: Vec<Origin>,
}

#[derive(Debug, PartialEq, Serialize)]
pub(crate) struct OfInbound {
    pub(crate) kind: &'static str,
    pub(crate) origins: Vec<Origin>,
    pub(crate) rules: Vec<InboundRule>,
}

#[derive(Debug, PartialEq, Serialize)]
pub(crate) struct InboundRule {
    pub(crate) kri: String,
    pub(crate) conf: Value,
}

#[derive(Debug, PartialEq, Serialize)]
pub(crate) struct OfDestination {
    pub(crate) kind: &'static str,
    /// One, or one for each hostname of a route.
    pub(crate) conf: Vec<Value>,
    pub(crate) origins: Vec<Origin>,
}

pub(crate) fn of_proxy(view: &MeshView, proxy: &Proxy) -> Policies<OfProxy> {
    let policies = view.in_force(proxy, is_for_whole_proxy);
    let policies = policies.filter_map(|(kind, _, matched)| {
        let rule = subset::single(&matched.proxy)?;
        Some(OfProxy { kind: kind.name, conf: rule.conf.json().clone(), origins: origins(&rule.origins) })
    });
    Policies { policies: policies.collect() }
}

/// `None` when the proxy has neither an inbound nor a listener with this name.
pub(crate) fn of_inbound(view: &MeshView, proxy: &Proxy, section: &str) -> Option<Policies<OfInbound>> {
    let place = Place::find(proxy, section)?;
    let policies = view.in_force(proxy, |facts| facts.from || facts.rules);
    let policies = policies.filter_map(|(kind, _, matched)| {
        let rules = inbound::rules(place.policies(&matched));
        let shown =
            rules.iter().map(|rule| InboundRule { kri: rule.policy.kri().to_string(), conf: rule.conf.json().clone() });
        let shown = OfInbound {
            kind: kind.name,
            origins: origins(rules.iter().map(|rule| &rule.policy)),
            rules: shown.collect(),
        };
        (!rules.is_empty()).then_some(shown)
    });
    Some(Policies { policies: policies.collect() })
}

pub(crate) fn of_destination(view: &MeshView, proxy: &Proxy, destination: &Kri) -> Policies<OfDestination> {
    let find = |rules: &ResourceRules| outbound::find(rules, destination).map(of_rule);
    to(view, proxy, |_| true, find)
}

/// For requests of a route to a destination: policies of the route, else of the destination.
pub(crate) fn of_route(view: &MeshView, proxy: &Proxy, destination: &Kri, route: &Kri) -> Policies<OfDestination> {
    let whole = Kri { section: String::new(), ..route.clone() };
    let find = |rules: &ResourceRules| {
        let of_route = rules.get(route).or_else(|| rules.get(&whole));
        of_route.or_else(|| outbound::find(rules, destination)).map(of_rule)
    };
    to(view, proxy, |shape| shape == ConfShape::Default, find)
}

type Found = (Vec<Value>, Vec<Origin>);

fn to(
    view: &MeshView,
    proxy: &Proxy,
    wanted: impl Fn(ConfShape) -> bool,
    find: impl Fn(&ResourceRules) -> Option<Found>,
) -> Policies<OfDestination> {
    let policies = view.in_force(proxy, |facts| facts.to && wanted(facts.conf));
    let policies = policies.filter_map(|(kind, _, matched)| {
        let (conf, origins) = find(&Asked::new(&matched.proxy, view.resolution()).rules(&view.resources))?;
        Some(OfDestination { kind: kind.name, conf, origins })
    });
    Policies { policies: policies.collect() }
}

fn of_rule(rule: &ResourceRule) -> Found {
    let confs = rule.confs.iter().map(|conf| conf.json().clone()).collect();
    (confs, entry_origins(&rule.origins))
}

/// Inbound or listener of a proxy.
enum Place {
    Inbound(usize),
    Listener(usize),
}

impl Place {
    fn find(proxy: &Proxy, section: &str) -> Option<Self> {
        let (inbounds, listeners) = (proxy.dataplane.inbounds(), proxy.dataplane.listeners());
        let inbound = inbounds.iter().position(|inbound| inbound.section_name() == section).map(Self::Inbound);
        let listener = || listeners.iter().position(|listener| listener.section_name() == section).map(Self::Listener);
        inbound.or_else(listener)
    }

    fn policies<'a>(&self, matched: &'a Matched) -> &'a [Arc<Policy>] {
        let policies = match self {
            Self::Inbound(n) => matched.inbounds.get(n),
            Self::Listener(n) => matched.listeners.get(n),
        };
        policies.map_or(&[], Vec::as_slice)
    }
}
