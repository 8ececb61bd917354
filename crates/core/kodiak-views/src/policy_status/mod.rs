//! How a policy stands: on how many proxies it is in force; where it is not, and why.
//!
//! Nothing is dropped in silence: what a policy says and nobody follows is said here.

mod overridden;
mod references;
#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use kodiak_model::{TargetKind, TargetRef, source_match::Match};
use kodiak_rules::{Book, Policy, Proxy, Resources, Shadow};
use serde::Serialize;

/// What is looked at.
#[derive(Clone, Copy)]
pub struct Context<'a> {
    pub book: &'a Book,
    pub resources: &'a Resources,
    pub proxies: &'a BTreeMap<Arc<str>, Arc<Proxy>>,
    /// The values of `kuma.io/service` in the mesh.
    pub services: &'a BTreeSet<String>,
    /// The kinds that change what proxies get.
    pub in_force: &'a [&'static str],
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PolicyStatus {
    #[serde(rename = "type")]
    pub kind: &'static str,
    pub mesh: Arc<str>,
    pub name: Arc<str>,
    pub kri: String,
    pub state: State,
    /// The proxies on which it is in force.
    pub proxies: usize,
    /// The proxies of the mesh.
    pub proxies_total: usize,
    pub reasons: Vec<Reason>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum State {
    /// All that it says is followed.
    InForce,
    /// Some of it is not.
    Partly,
    /// Nothing of it is.
    NotInForce,
}

/// Why something that a policy says is not followed.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Reason {
    pub reason: Why,
    pub message: String,
    /// Of what in the policy this is said; of all of it when missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The KRIs of the policies that are to blame.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub policies: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum Why {
    /// Kodiak knows the kind, and does not act on it yet.
    NotSupportedYet,
    /// It is only tried out.
    Shadow,
    /// It selects no proxy.
    NoMatch,
    /// It selects only proxies that it cannot be applied to.
    UnsupportedProxyType,
    /// Stronger policies say something else wherever it says something.
    Overridden,
    /// It is in a form that other policies at the same inbounds rule out.
    Ignored,
    /// It refers to something that is not there.
    Unresolved,
}

impl Why {
    /// Whether nothing at all is followed because of it.
    fn is_final(self, path: Option<&String>) -> bool {
        match self {
            Self::NotSupportedYet | Self::Shadow | Self::NoMatch | Self::UnsupportedProxyType | Self::Overridden => {
                true
            }
            Self::Ignored | Self::Unresolved => path.is_none(),
        }
    }
}

pub fn of(policy: &Arc<Policy>, context: Context<'_>) -> PolicyStatus {
    let selected = context.book.selected(policy, Shadow::Included);
    let able: BTreeSet<Arc<str>> = selected.iter().filter(|name| is_able(name, context)).cloned().collect();
    let mut reasons = whole(policy, &selected, &able, context);
    if reasons.is_empty() {
        let found = overridden::find(policy, &able, context);
        reasons.extend(found.reasons);
        return status(policy, found.followed, reasons, context);
    }
    status(policy, 0, reasons, context)
}

fn status(policy: &Policy, proxies: usize, mut reasons: Vec<Reason>, context: Context<'_>) -> PolicyStatus {
    reasons.extend(references::find(policy, context));
    let parts = references::parts(policy);
    let broken: BTreeSet<&String> = reasons.iter().filter_map(|reason| reason.path.as_ref()).collect();
    let is_final = reasons.iter().any(|reason| reason.reason.is_final(reason.path.as_ref()));
    let all_broken = !parts.is_empty() && parts.iter().all(|part| broken.contains(part));
    let state = match reasons.is_empty() {
        true => State::InForce,
        false if is_final || all_broken => State::NotInForce,
        false => State::Partly,
    };
    PolicyStatus {
        kind: policy.kind.name,
        mesh: policy.mesh.clone(),
        name: policy.name.clone(),
        kri: policy.kri().to_string(),
        proxies: if state == State::NotInForce { 0 } else { proxies },
        state,
        proxies_total: context.proxies.len(),
        reasons,
    }
}

/// Why nothing of it is followed, whatever else it says.
fn whole(
    policy: &Policy,
    selected: &BTreeSet<Arc<str>>,
    able: &BTreeSet<Arc<str>>,
    context: Context<'_>,
) -> Vec<Reason> {
    let because = |reason, message: String| vec![Reason { reason, message, path: None, policies: Vec::new() }];
    let kind = policy.kind.name;
    if !context.in_force.contains(&kind) {
        return because(Why::NotSupportedYet, format!("{kind} is stored and checked, but nothing acts on it yet"));
    }
    if policy.meta().is_shadow() {
        let text = "it has the label kuma.io/effect: shadow, so it is only tried out; \
                    `kodiak inspect dataplane NAME --type config --shadow --include diff` shows what it would do";
        return because(Why::Shadow, text.to_owned());
    }
    if selected.is_empty() {
        return because(Why::NoMatch, no_match(policy, context));
    }
    if able.is_empty() {
        let text = "it selects only builtin gateways, which are not configured yet";
        return because(Why::UnsupportedProxyType, text.to_owned());
    }
    Vec::new()
}

fn is_able(name: &str, context: Context<'_>) -> bool {
    context.proxies.get(name).is_some_and(|proxy| !proxy.dataplane.is_builtin_gateway())
}

fn no_match(policy: &Policy, context: Context<'_>) -> String {
    let everything = TargetRef::default();
    let target = policy.body.target.as_ref().unwrap_or(&everything);
    if context.proxies.is_empty() {
        return format!("mesh {:?} has no proxies", policy.mesh);
    }
    if target.known_kind() == Some(TargetKind::MeshHTTPRoute) {
        let name = target.name.as_deref().unwrap_or_default();
        if context.resources.route(&policy.mesh, name).is_none() {
            return format!("there is no MeshHTTPRoute {name:?}");
        }
    }
    format!("no proxy is {}", described(target, policy))
}

/// What a proxy would have to be.
fn described(target: &TargetRef, policy: &Policy) -> String {
    let pairs = |map: Option<&BTreeMap<String, String>>| {
        let pairs = map.into_iter().flatten().map(|(key, value)| format!("{key}={value}"));
        pairs.collect::<Vec<_>>().join(", ")
    };
    let name = target.name.as_deref().unwrap_or_default();
    let (tags, labels) = (pairs(target.tags.as_ref()), pairs(target.labels.as_ref()));
    let mut text = match target.known_kind() {
        Some(TargetKind::MeshSubset) => format!("tagged {tags}"),
        Some(TargetKind::MeshService) => format!("tagged kuma.io/service={name}"),
        Some(TargetKind::MeshServiceSubset) if tags.is_empty() => format!("tagged kuma.io/service={name}"),
        Some(TargetKind::MeshServiceSubset) => format!("tagged kuma.io/service={name}, {tags}"),
        Some(TargetKind::Dataplane) if !name.is_empty() => format!("called {name:?}"),
        Some(TargetKind::Dataplane) if !labels.is_empty() => format!("labelled {labels}"),
        None | Some(TargetKind::Mesh | TargetKind::Dataplane) => "in reach".to_owned(),
        Some(TargetKind::MeshGateway) => format!("of the gateway {name:?}"),
        Some(TargetKind::MeshHTTPRoute) => format!("selected by the route {name:?}"),
        Some(TargetKind::MeshExternalService | TargetKind::MeshMultiZoneService) => "meant by this kind".to_owned(),
    };
    if let Some(types) = target.proxy_types.as_ref().filter(|types| !types.is_empty()) {
        let types: Vec<String> = types.iter().map(ToString::to_string).collect();
        text = format!("{text} and of the type {}", types.join(" or "));
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

/// Whether a rule tells callers apart.
fn has_conditions(matches: &[Match]) -> bool {
    matches.iter().any(|one| *one != Match::default())
}
