//! Status of a policy: number of proxies on which it is in force, and reasons where it is not.
//!
//! ```text
//!  proxies --> groups: proxies with the same policies --> followed: parts of a policy that take effect there
//!  policy --> selected: whether it selects any proxy
//!         --> references: whether their targets exist
//!         --> callers: whether callers are known, and their certificates have the tags in `from`
//!         --> presented: whether a Dataplane can present the SPIFFE IDs in `rules`
//! ```
//!
//! Nothing is ignored silently: every part without effect has a reason here.

mod callers;
mod followed;
mod groups;
mod patched;
mod presented;
mod references;
mod selected;
#[cfg(test)]
mod tests;
mod verdict;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use kodiak_model::{Cancellation, Cancelled, Kri, TargetRef};
use kodiak_policies::otlp_backends::OtlpBackends;
use kodiak_rules::{Policy, PolicyIndex, Proxy, Resources, outbound::NameResolution};
use kodiak_world::{Resource, Unreadable};

pub use self::patched::{ProxyProblems, can_break_proxies};
use self::{callers::CallersWithoutTags, groups::Groups, presented::Presented};
use kodiak_identity::Identity;
use kodiak_rollout::Rollout;

/// Inputs.
#[derive(Clone, Copy)]
pub struct PolicyStatusContext<'a> {
    pub policy_index: &'a PolicyIndex,
    pub resources: &'a Resources,
    pub proxies: &'a BTreeMap<Arc<str>, Arc<Proxy>>,
    /// [`MeshView::legacy_services`](crate::inspect::MeshView::legacy_services) of the mesh.
    pub services: &'a BTreeSet<String>,
    /// Proxies whose outbound connections are known not to be redirected to them.
    pub not_redirected: &'a BTreeSet<Arc<str>>,
    pub identities: &'a [Identity],
    pub otlp_backends: &'a OtlpBackends,
    /// Current step of mutual TLS of the mesh.
    pub rollout: &'a Rollout,
    /// Whether proxies have destinations by `kuma.io/service` beside those that are objects.
    pub resolution: NameResolution,
}

#[derive(Debug, Clone, PartialEq)]
pub struct PolicyStatus {
    pub kind: &'static str,
    pub mesh: Arc<str>,
    pub name: Arc<str>,
    pub kri: String,
    /// Top-level `targetRef`.
    pub target_ref: Option<TargetRef>,
    pub state: State,
    /// Number of proxies on which it is in force.
    pub proxies: usize,
    /// Number of proxies in the mesh.
    pub proxies_total: usize,
    pub reasons: Vec<Reason>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    /// All of it takes effect on all proxies that it selects.
    InForce,
    /// Some of it takes effect, or on some proxies only.
    Partly,
    /// It has no effect.
    NotInForce,
}

/// Reason why a policy, or a part of it, has no effect.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Reason {
    pub reason: Why,
    pub message: String,
    /// Path of the part; the whole policy when missing.
    pub path: Option<String>,
    /// KRIs of the policies that cause it.
    pub policies: Vec<String>,
}

impl Reason {
    fn new(reason: Why, message: impl Into<String>) -> Self {
        Self { reason, message: message.into(), path: None, policies: Vec::new() }
    }

    fn at(self, path: impl Into<String>) -> Self {
        Self { path: Some(path.into()), ..self }
    }

    fn by(self, policies: BTreeSet<String>) -> Self {
        Self { policies: policies.into_iter().collect(), ..self }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Why {
    /// The kind is stored and validated, but not implemented yet.
    NotSupportedYet,
    /// Shadow policy.
    Shadow,
    /// It selects no proxy, or has no effect on those that it selects.
    NoMatch,
    /// It selects only proxies that it cannot be applied to.
    UnsupportedProxyType,
    /// Policies with higher precedence override it.
    Overridden,
    /// Another policy at the same inbounds disables its `from`.
    Ignored,
    /// Inbounds that it selects accept plain text, so callers are not known there.
    NoMutualTls,
    /// Callers that its `from` matches by tags get certificates of a MeshIdentity, which have no tags.
    CallersWithoutTags,
    /// No Dataplane of the mesh can present a SPIFFE ID that it names.
    NoClientPresentsIt,
    /// Together with others it has too many combinations of tags.
    TooMany,
    /// It references a resource that does not exist.
    Unresolved,
    /// Resources that it changes are invalid; proxies keep their last good version.
    FailedValidation,
    /// Envoy rejects resources that it changes, and keeps their last good version.
    Rejected,
    /// The stored version is unreadable for this version of Kodiak.
    Unreadable,
}

impl PolicyStatus {
    /// For a policy without any readable version, in a mesh of `proxies_total` proxies.
    pub fn left_out(resource: &Resource, proxies_total: usize) -> Option<Self> {
        let (kind, key) = (resource.kind?, &resource.key);
        let reason = Reason::new(Why::Unreadable, resource.unreadable()?.to_string());
        Some(Self {
            kind: kind.name,
            mesh: key.mesh.clone(),
            name: key.name.clone(),
            kri: Kri::of(kind, &key.mesh, &key.name, &resource.labels)?.to_string(),
            target_ref: None,
            state: State::NotInForce,
            proxies: 0,
            proxies_total,
            reasons: vec![reason],
        })
    }

    /// Another version of the policy is in force than the stored one.
    pub fn with_unreadable(mut self, unreadable: &Unreadable) -> Self {
        self.reasons.push(Reason::new(Why::Unreadable, unreadable.to_string()));
        if self.state == State::InForce {
            self.state = State::Partly;
        }
        self
    }
}

pub fn of(policy: &Arc<Policy>, context: PolicyStatusContext<'_>) -> PolicyStatus {
    let all = of_all([policy], context, &Cancellation::never()).unwrap_or_default();
    all.into_iter().next().expect("one policy has one status")
}

/// Status of many policies: proxies are matched once per kind, not per policy.
pub fn of_all<'p>(
    policies: impl IntoIterator<Item = &'p Arc<Policy>>,
    context: PolicyStatusContext<'_>,
    cancellation: &Cancellation,
) -> Result<Vec<PolicyStatus>, Cancelled> {
    let mut kinds: BTreeMap<&'static str, Groups> = BTreeMap::new();
    let (callers, presented) = (CallersWithoutTags::of(context), Presented::default());
    let mut of = |policy: &Arc<Policy>| {
        cancellation.check()?;
        let kind = policy.kind.name;
        if let Some(why) = policy.kind.without_effect {
            return Ok(status(policy, 0, vec![Reason::new(Why::NotSupportedYet, why)], context));
        }
        let groups = kinds.entry(kind).or_insert_with(|| Groups::of(kind, context));
        let (proxies, reasons) = verdict::of(policy, groups, (&callers, &presented), context);
        Ok(status(policy, proxies, reasons, context))
    };
    policies.into_iter().map(&mut of).collect()
}

fn status(policy: &Policy, proxies: usize, reasons: Vec<Reason>, context: PolicyStatusContext<'_>) -> PolicyStatus {
    let state = match (proxies, reasons.is_empty()) {
        (0, _) => State::NotInForce,
        (_, true) => State::InForce,
        (_, false) => State::Partly,
    };
    PolicyStatus {
        kind: policy.kind.name,
        mesh: policy.mesh.clone(),
        name: policy.name.clone(),
        kri: policy.kri().to_string(),
        target_ref: policy.body.target.clone(),
        state,
        proxies,
        proxies_total: context.proxies.len(),
        reasons,
    }
}
