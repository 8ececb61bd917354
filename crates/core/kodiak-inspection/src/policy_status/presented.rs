//! Callers that a policy names by SPIFFE ID, and that no Dataplane of the mesh can present.

use std::{cell::OnceCell, collections::BTreeSet, ops::Bound};

use kodiak_identity::expected_ids;
use kodiak_model::{
    Choice,
    source_match::{Match, SpiffeIdMatch, SpiffeIdMatchType},
    spiffe,
};
use kodiak_reachability::certificates;
use kodiak_rules::Policy;

use super::{PolicyStatusContext, Reason, Why};
use crate::near;

/// SPIFFE IDs of all Dataplanes that their issuers give to them at the current step, or will. Computed for the first policy
/// that names one.
#[derive(Default)]
pub(super) struct Presented(OnceCell<BTreeSet<String>>);

impl Presented {
    /// One for each caller of a policy that nobody presents.
    pub(super) fn reasons(&self, policy: &Policy, context: PolicyStatusContext<'_>) -> Vec<Reason> {
        let ids = || self.0.get_or_init(|| ids(&policy.mesh, context));
        let reason = |(path, caller): &(String, Match)| {
            let id = caller.spiffe_id.as_ref()?;
            // Without any certificate, other reasons say why nothing is enforced.
            (!ids().is_empty() && !is_presented(id, ids()))
                .then(|| Reason::new(Why::NoClientPresentsIt, message(id, ids())).at(format!("{path}.spiffeID")))
        };
        callers(policy).iter().filter_map(reason).collect()
    }
}

/// Callers that the rules of a policy are for, with their paths.
fn callers(policy: &Policy) -> Vec<(String, Match)> {
    let hook = kodiak_policies::find(policy.kind.name);
    let mut callers = Vec::new();
    for (n, rule) in policy.body.rules.iter().enumerate() {
        let matches = rule.matches.iter().cloned().enumerate();
        callers.extend(matches.map(|(m, one)| (format!("spec.rules[{n}].matches[{m}]"), one)));
        let named = hook.map(|hook| hook.callers(&rule.conf)).unwrap_or_default();
        callers.extend(named.into_iter().map(|(path, one)| (format!("spec.rules[{n}].default.{path}"), one)));
    }
    callers
}

fn ids(mesh: &str, context: PolicyStatusContext<'_>) -> BTreeSet<String> {
    let mut ids = BTreeSet::new();
    for proxy in context.proxies.values() {
        let issued = certificates(mesh, proxy, context.rollout);
        ids.extend(issued.iter().flat_map(|uris| uris.iter()).filter(|uri| uri.starts_with("spiffe://")).cloned());
        // Those of MeshIdentities without a provider, too: permissions for them come first.
        ids.extend(expected_ids(context.rollout, proxy));
    }
    ids
}

fn is_presented(id: &SpiffeIdMatch, ids: &BTreeSet<String>) -> bool {
    let value = id.value.clone().unwrap_or_default();
    match &id.match_type {
        None | Some(Choice::Known(SpiffeIdMatchType::Exact)) => ids.contains(&value),
        Some(Choice::Known(SpiffeIdMatchType::Prefix)) => {
            let from = (Bound::Included(value.as_str()), Bound::Unbounded);
            let starting = ids.range::<str, _>(from).take_while(|id| id.starts_with(&value));
            starting.into_iter().any(|id| spiffe::has_prefix(id, &value))
        }
        // Written by another version.
        Some(Choice::Unknown(_)) => true,
    }
}

fn message(id: &SpiffeIdMatch, ids: &BTreeSet<String>) -> String {
    let value = id.value.as_deref().unwrap_or_default();
    let is_prefix = id.match_type.as_ref().is_some_and(|found| found.is(SpiffeIdMatchType::Prefix));
    let meant = if is_prefix { format!("a SPIFFE ID below {value}") } else { value.to_owned() };
    let closest = near::closest_path(value, ids.iter().map(String::as_str));
    let closest = closest.map(|id| format!("; the closest that exists is {id}")).unwrap_or_default();
    format!("no Dataplane of the mesh presents {meant}{closest}")
}
