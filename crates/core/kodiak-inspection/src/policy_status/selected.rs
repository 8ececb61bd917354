//! Reasons why a policy selects no proxy, with advice.

use std::collections::BTreeMap;

use kodiak_model::{TargetKind, TargetRef};
use kodiak_rules::{Policy, Shadow};

use super::{PolicyStatusContext, Reason, Why};

/// For a policy that selects no proxy to which it can be applied.
pub(super) fn none(policy: &Policy, context: PolicyStatusContext<'_>) -> Reason {
    let everything = TargetRef::default();
    let target = policy.body.target.as_ref().unwrap_or(&everything);
    if context.proxies.is_empty() {
        return Reason::new(Why::NoMatch, format!("mesh {:?} has no proxies", policy.mesh));
    }
    if target.known_kind() == Some(TargetKind::MeshHTTPRoute) {
        let name = target.name.as_deref().unwrap_or_default();
        if context.resources.route(&policy.mesh, name).is_none() {
            return Reason::new(Why::Unresolved, format!("there is no MeshHTTPRoute {name:?}")).at("spec.targetRef");
        }
    }
    if !context.policy_index.selected(policy, Shadow::Included).is_empty() {
        let text = "it selects only builtin gateways, which are not configured yet";
        return Reason::new(Why::UnsupportedProxyType, text);
    }
    Reason::new(Why::NoMatch, format!("no proxy is {}", described(target, policy)))
}

/// For a policy that selects proxies without an effect on them.
pub(super) fn unused(policy: &Policy) -> Reason {
    let body = &policy.body;
    if body.to.is_empty() && !(body.from.is_empty() && body.rules.is_empty()) {
        let text = "it applies to inbound requests, and the selected proxies have no inbounds";
        return Reason::new(Why::UnsupportedProxyType, text);
    }
    Reason::new(Why::NoMatch, "it has no effect on the proxies that it selects")
}

/// For a policy about transparent proxying, of `selected` proxies `not_redirected`.
pub(super) fn not_redirected(not_redirected: usize, selected: usize) -> Reason {
    let place =
        if not_redirected == selected { String::new() } else { format!("on {not_redirected} of {selected} proxies, ") };
    let text = format!(
        "{place}outbound connections are not redirected to the proxy, so it is not enforced and every destination outside \
         the mesh can be reached: run it with --transparent-proxy"
    );
    Reason::new(Why::UnsupportedProxyType, text)
}

/// For a target without conditions.
const IN_REACH: &str = "in reach";

/// Description of the proxies that a target selects.
fn described(target: &TargetRef, policy: &Policy) -> String {
    let pairs = |map: Option<&BTreeMap<String, String>>| {
        let pairs = map.into_iter().flatten().map(|(key, value)| format!("{key}={value}"));
        pairs.collect::<Vec<_>>().join(", ")
    };
    let name = target.name.as_deref().unwrap_or_default();
    let (tags, labels) = (pairs(target.tags.as_ref()), pairs(target.labels.as_ref()));
    let mut text = match target.known_kind() {
        Some(TargetKind::MeshSubset) if tags.is_empty() => IN_REACH.to_owned(),
        Some(TargetKind::MeshSubset) => format!("tagged {tags}"),
        Some(TargetKind::MeshServiceSubset) if !tags.is_empty() => format!("tagged kuma.io/service={name}, {tags}"),
        Some(TargetKind::MeshService | TargetKind::MeshServiceSubset) => format!("tagged kuma.io/service={name}"),
        Some(TargetKind::Dataplane) if !name.is_empty() => format!("called {name:?}"),
        Some(TargetKind::Dataplane) if !labels.is_empty() => format!("labelled {labels}"),
        None | Some(TargetKind::Mesh | TargetKind::Dataplane) => IN_REACH.to_owned(),
        Some(TargetKind::MeshGateway) => format!("of the gateway {name:?}"),
        Some(TargetKind::MeshHTTPRoute) => format!("selected by the route {name:?}"),
        Some(TargetKind::MeshExternalService | TargetKind::MeshMultiZoneService) => "meant by this kind".to_owned(),
    };
    if let Some(types) = target.proxy_types.as_ref().filter(|types| !types.is_empty()) {
        let types: Vec<String> = types.iter().map(ToString::to_string).collect();
        let types = format!("of the type {}", types.join(" or "));
        text = if text == IN_REACH { types } else { format!("{text} and {types}") };
    }
    if let Some(section) = target.section_name.as_deref().filter(|section| !section.is_empty()) {
        text = format!("{text} with an inbound {section:?}");
    }
    match (policy.meta().namespace(), policy.meta().zone()) {
        (Some(namespace), _) => format!("{text} (the policy is of namespace {namespace:?})"),
        (None, Some(zone)) => format!("{text} (the policy is of zone {zone:?})"),
        (None, None) => text,
    }
}
