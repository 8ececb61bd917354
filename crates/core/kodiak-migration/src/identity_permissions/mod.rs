//! Conversion of MeshTrafficPermissions from tags (`from`) to SPIFFE IDs (`rules`).
//!
//! A certificate of a MeshIdentity has one SPIFFE ID and no tags, so `from` items with tags do not match it.
//!
//! ```text
//!  Dataplanes --> callers: classes with equal certificates
//!  inbounds   --> inbounds: sets with equal policies, and groups of policies that meet at an inbound
//!  each group --> draft: `rules` of its policies --> proof: same verdicts, or the whole group stays as it is
//! ```
//!
//! **Invariant:** one item of `rules` disables every `from` at an inbound, so policies that meet at an inbound are
//! converted together or not at all.
//! **Invariant:** a policy changes only if the proof holds for every pair of a caller and an inbound.

mod callers;
mod draft;
mod inbounds;
mod proof;
#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use kodiak_identity::Identity;
use kodiak_model::{Cancellation, Cancelled, Kri, TargetRef};
use kodiak_policies::mesh_traffic_permission::KIND;
use kodiak_rules::Policy;
use kodiak_world::World;
use serde_json::Value;

pub use self::proof::{Difference, PermissionProof};
use self::{
    callers::{CallerClass, Holders},
    draft::Draft,
    inbounds::{Group, InboundSet},
};

/// Result for a mesh.
#[derive(Debug, Clone, PartialEq)]
pub struct PermissionConversion {
    /// Policies with `from`, by name.
    pub policies: Vec<ConvertedPermission>,
    /// Compares all verdicts before and after the conversion of these policies.
    pub proof: PermissionProof,
}

#[derive(Debug, Clone, PartialEq)]
pub struct ConvertedPermission {
    pub policy: Arc<Policy>,
    /// Value of `spec.rules` that replaces `spec.from`; `None` if the policy stays as it is.
    pub rules: Option<Value>,
    pub findings: Vec<PermissionFinding>,
}

/// Item of `from`, or all of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PermissionFinding {
    /// Path in the policy before the conversion.
    pub path: String,
    pub reference: String,
    pub outcome: PermissionOutcome,
    /// Matches that replace it, as `allow spiffe://default/web`.
    pub new: Vec<String>,
    /// Explanation; may be empty.
    pub message: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum PermissionOutcome {
    Converted,
    /// Not needed: no caller is decided by it, or callers are denied without it.
    Dropped,
    /// The policy stays as it is, and need not change.
    Unchanged,
    /// The policy stays as it is; the message has the reason.
    Refused,
}

/// `spec` with `rules` in place of `from`.
pub fn with_rules(spec: &Value, rules: &Value) -> Value {
    let mut spec = spec.clone();
    if let Some(fields) = spec.as_object_mut() {
        fields.shift_remove("from");
        fields.insert("rules".to_owned(), rules.clone());
    }
    spec
}

/// Converts the policies of a mesh that may change, and proves that verdicts stay the same.
pub fn convert_permissions(
    world: &World,
    mesh: &str,
    may_change: impl Fn(&Policy) -> bool,
    cancellation: &Cancellation,
) -> Result<PermissionConversion, Cancelled> {
    let identities: Vec<Identity> =
        world.list_in("MeshIdentity", mesh).filter_map(|found| Identity::of(found)).collect();
    let callers = callers::classes(world, mesh, &identities);
    let sets = inbounds::sets(world, mesh);
    let mut convertible: BTreeMap<Arc<str>, &Arc<Policy>> = BTreeMap::new();
    for policy in world.policies(&KIND, mesh).filter(|policy| policy.body.rules.is_empty()) {
        if !policy.body.from.is_empty() {
            convertible.insert(policy.name.clone(), policy);
        }
    }
    cancellation.check()?;
    let groups = inbounds::groups(convertible.keys().cloned(), &sets);
    let holders = Holders::of(&callers);
    let context =
        Context { mesh, callers: &callers, holders: &holders, has_identities: !identities.is_empty(), cancellation };
    let mut done: BTreeMap<Arc<str>, ConvertedPermission> = BTreeMap::new();
    let mut refused: Option<Arc<str>> = None;
    // Policies without an inbound come last: they may meet any other policy at a later one.
    for Group { names, sets } in &groups {
        let members: Vec<&Arc<Policy>> = names.iter().map(|name| convertible[name]).collect();
        let converted = match refused.as_ref().filter(|_| sets.is_empty()) {
            Some(other) => {
                let reason = format!(
                    "it selects no inbound now, and later it may meet MeshTrafficPermission {other}, which keeps `from`"
                );
                members.iter().map(|policy| refusal(policy, "spec.from", reason.clone())).collect()
            }
            None => context.group(&members, sets, &may_change)?,
        };
        let is_refused = |one: &ConvertedPermission| {
            one.findings.iter().any(|finding| finding.outcome == PermissionOutcome::Refused)
        };
        refused = refused.or_else(|| converted.iter().find(|one| is_refused(one)).map(|one| one.policy.name.clone()));
        done.extend(converted.into_iter().map(|one| (one.policy.name.clone(), one)));
    }
    let policies: Vec<ConvertedPermission> = done.into_values().collect();
    let proof = PermissionProof::of(mesh, &callers, &sets, &after(&policies), cancellation)?;
    Ok(PermissionConversion { policies, proof })
}

/// Converted policies by name, as they are stored after the conversion.
fn after(converted: &[ConvertedPermission]) -> BTreeMap<Arc<str>, Arc<Policy>> {
    let changed = converted.iter().filter_map(|one| Some((one, one.rules.as_ref()?)));
    changed.map(|(one, rules)| (one.policy.name.clone(), draft::with_body(&one.policy, rules))).collect()
}

fn refusal(policy: &Arc<Policy>, path: &str, reason: String) -> ConvertedPermission {
    let finding = PermissionFinding {
        path: path.to_owned(),
        reference: String::new(),
        outcome: PermissionOutcome::Refused,
        new: Vec::new(),
        message: reason,
    };
    ConvertedPermission { policy: policy.clone(), rules: None, findings: vec![finding] }
}

#[derive(Clone, Copy)]
struct Context<'a> {
    mesh: &'a str,
    callers: &'a [CallerClass],
    holders: &'a Holders<'a>,
    has_identities: bool,
    cancellation: &'a Cancellation,
}

impl Context<'_> {
    /// Converts policies that meet at inbounds, together or not at all.
    fn group(
        self,
        members: &[&Arc<Policy>],
        sets: &[&InboundSet],
        may_change: &impl Fn(&Policy) -> bool,
    ) -> Result<Vec<ConvertedPermission>, Cancelled> {
        let rulers = rulers(sets);
        let mut refusals: BTreeMap<Arc<str>, ConvertedPermission> = BTreeMap::new();
        let mut drafts = Vec::new();
        for policy in members {
            self.cancellation.check()?;
            let refused = self.obstacle(policy, &rulers, may_change).map_or_else(
                || Draft::of(policy, self.mesh, self.callers, self.holders).map(|draft| drafts.push(draft)),
                |reason| Err(("spec.from".to_owned(), reason)),
            );
            if let Err((path, reason)) = refused {
                refusals.insert(policy.name.clone(), refusal(policy, &path, reason));
            }
        }
        if refusals.is_empty() {
            draft::drop_overridden(&mut drafts, sets, self.mesh, self.callers, self.cancellation)?;
            let converted: Vec<ConvertedPermission> =
                drafts.iter().map(|draft| draft.converted(self.callers)).collect();
            let first = proof::first_difference(self.mesh, self.callers, sets, &after(&converted), self.cancellation)?;
            let Some(first) = first else { return Ok(converted) };
            let reason = format!(
                "`rules` cannot express it, because any Deny decides there, then any AllowWithShadowDeny: {first}; write \
                 the policies of this inbound as `rules` by hand"
            );
            let met: BTreeSet<&Arc<str>> = first.policies.iter().collect();
            let blamed = members.iter().filter(|policy| met.contains(&policy.name));
            for policy in blamed {
                refusals.insert(policy.name.clone(), refusal(policy, "spec.from", reason.clone()));
            }
        }
        let blamed: BTreeSet<Arc<str>> = refusals.keys().cloned().collect();
        let other = blamed.first().map(ToString::to_string).unwrap_or_default();
        let reason = || {
            format!(
                "it selects the same inbounds as MeshTrafficPermission {other}, which stays as it is; both are converted together"
            )
        };
        let of = |policy: &&Arc<Policy>| {
            refusals.remove(&policy.name).unwrap_or_else(|| refusal(policy, "spec.from", reason()))
        };
        Ok(members.iter().map(of).collect())
    }

    /// Why a policy stays as it is, regardless of its items.
    fn obstacle(
        self,
        policy: &Arc<Policy>,
        rulers: &BTreeMap<&str, &Arc<Policy>>,
        may_change: &impl Fn(&Policy) -> bool,
    ) -> Option<String> {
        if !self.has_identities {
            return Some(
                "the mesh has no MeshIdentity, so the SPIFFE IDs of callers are unknown: create one without a provider, \
                 then convert"
                    .to_owned(),
            );
        }
        if policy.meta().is_shadow() {
            return Some("it is a dry run (kuma.io/effect: shadow), which the proof does not cover".to_owned());
        }
        if !may_change(policy) {
            return Some("it is not among the given files, and selects the same inbounds as one of them".to_owned());
        }
        let ruler = rulers.get(&*policy.name)?;
        Some(format!(
            "it is ignored at inbounds that MeshTrafficPermission {} selects with `rules`, and would take effect there; \
             move its items there or narrow its targetRef",
            ruler.name
        ))
    }
}

/// For each policy that meets a policy with `rules`, the first one of those.
fn rulers<'a>(sets: &[&'a InboundSet]) -> BTreeMap<&'a str, &'a Arc<Policy>> {
    let mut rulers = BTreeMap::new();
    for set in sets {
        let Some(ruler) = set.policies.iter().find(|policy| !policy.body.rules.is_empty()) else { continue };
        for policy in &set.policies {
            rulers.entry(&*policy.name).or_insert(ruler);
        }
    }
    rulers
}

fn show(target: &TargetRef) -> String {
    crate::old::show(target)
}

fn kri_of(policy: &Policy) -> Arc<str> {
    let kri: Kri = policy.kri();
    kri.to_string().into()
}
