//! Policies: those that match the same inbound must not have too many combinations of tags.
//!
//! Rules by tags are built for combinations of tags, so a few policies with many tags can result in millions. That is
//! detected when a policy is written, not when its rules are needed.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use kodiak_kinds::kinds;
use kodiak_model::{Cancellation, Cancelled, Checked, FieldPath, Problems, ResourceKey, TargetKind, policy::Body};
use kodiak_rules::{Matched, Policy, Shadow, subset};
use kodiak_store::Snapshot;

use crate::{
    Refusal, Stage,
    put::{key_of, write},
};

/// A written policy with too many combinations, and the problem.
pub(crate) struct TooMany {
    pub(crate) key: ResourceKey,
    pub(crate) problems: Problems,
}

/// Finds a policy that has too many combinations together with others, of those that were `written` to `after`. Documents
/// that are written together are judged once, together: their cost is proportional to them and to the stored policies.
pub(crate) fn too_many(
    after: &Snapshot,
    written: &[ResourceKey],
    cancellation: &Cancellation,
) -> Result<Option<TooMany>, Cancelled> {
    let mut by_place: BTreeMap<(Arc<str>, Arc<str>), BTreeSet<&str>> = BTreeMap::new();
    for key in written {
        by_place.entry((key.kind.clone(), key.mesh.clone())).or_default().insert(&key.name);
    }
    for ((kind, mesh), names) in by_place {
        let Some(kind) = kinds().by_name(&kind).filter(|kind| kind.policy.is_some_and(|facts| facts.from)) else {
            continue;
        };
        let all = after.world().policies(kind, &mesh).filter_map(|policy| callers(policy));
        let (new, others): (Vec<_>, Vec<_>) = all.partition(|policy| names.contains(&*policy.name));
        if !new.iter().any(|policy| names_tags(policy)) {
            continue;
        }
        cancellation.check()?;
        let meetings = || meetings(after, &others, &new, cancellation);
        if let Some((policy, error)) = combinations_error(&others, &new, meetings, cancellation)? {
            let mut problems = Problems::default();
            let message = format!("{error}; or match callers with `rules`");
            problems.add(&FieldPath::ROOT.field("spec").field("from"), message);
            return Ok(Some(TooMany { key: ResourceKey::in_mesh(kind.name, &mesh, &policy.name), problems }));
        }
    }
    Ok(None)
}

/// As [`too_many`], for one write.
pub(crate) fn check_combinations(snapshot: &Snapshot, checked: &Checked) -> Result<(), Refusal> {
    let old = snapshot.get(&key_of(checked));
    let is_same = old.is_some_and(|old| *old.spec == *checked.spec() && *old.labels == checked.labels);
    if is_same || !checked.kind.is_policy() {
        return Ok(());
    }
    let after = snapshot.with(write(checked, snapshot).into())?;
    match too_many(&after, &[key_of(checked)], &Cancellation::never()) {
        Ok(Some(TooMany { problems, .. })) => {
            Err(Refusal::invalid(if old.is_none() { Stage::Create } else { Stage::Update }, problems))
        }
        Ok(None) | Err(Cancelled) => Ok(()),
    }
}

/// The policy with its `from` alone; `None` when it has none.
fn callers(policy: &Policy) -> Option<Arc<Policy>> {
    if !policy.kind.policy.is_some_and(|facts| facts.from) || policy.body.from.is_empty() {
        return None;
    }
    let Body { target, from, .. } = policy.body.clone();
    Some(Arc::new(Policy { body: Body { target, from, ..Body::default() }, ..policy.clone() }))
}

/// Items for all callers add no combination.
fn names_tags(policy: &Policy) -> bool {
    policy.body.from.iter().any(|item| item.target.known_kind() != Some(TargetKind::Mesh))
}

/// New policies that match together, and the others that match with them.
struct Meeting {
    others: Vec<Arc<Policy>>,
    new: Vec<Arc<Policy>>,
}

type Blamed = (Arc<Policy>, subset::RuleError);

/// The new policy that causes too many combinations where it matches together with others. Matching is evaluated only if
/// all of them together would be too many: a part of them never has more.
fn combinations_error(
    others: &[Arc<Policy>],
    new: &[Arc<Policy>],
    meetings: impl FnOnce() -> Result<Vec<Meeting>, Cancelled>,
    cancellation: &Cancellation,
) -> Result<Option<Blamed>, Cancelled> {
    if subset::explodes(&[others, new].concat()).is_none() {
        return Ok(None);
    }
    let is_new: BTreeSet<&str> = new.iter().map(|policy| &*policy.name).collect();
    for Meeting { others, new } in meetings()? {
        cancellation.check()?;
        // The first ones that are enough are reported. With the new ones last, none of them is reported if there were too
        // many without them.
        let Some(error) = subset::explodes(&[others, new].concat()) else { continue };
        let subset::RuleError::TooMany { policies, .. } = &error else { continue };
        let last = policies.iter().rev().find(|policy| is_new.contains(&*policy.name)).cloned();
        if let Some(last) = last {
            return Ok(Some((last, error)));
        }
    }
    Ok(None)
}

/// For each inbound that a new policy matches, the policies that match there.
fn meetings(
    after: &Snapshot,
    others: &[Arc<Policy>],
    new: &[Arc<Policy>],
    cancellation: &Cancellation,
) -> Result<Vec<Meeting>, Cancelled> {
    let Some(first) = new.first() else { return Ok(Vec::new()) };
    let (mut policy_index, kind) = (after.world().policy_index([], &first.mesh), first.kind.name);
    for policy in others.iter().chain(new) {
        policy_index.set_policy(&(kind, policy.name.clone()), Some(policy.clone()));
    }
    let mut selected = BTreeSet::new();
    for policy in new {
        cancellation.check()?;
        selected.extend(policy_index.selected(policy, Shadow::Included));
    }
    let matched: Vec<Arc<Matched>> =
        selected.iter().map(|proxy| policy_index.matched(kind, proxy, Shadow::Included)).collect();
    // Equal results are shared.
    let distinct: BTreeMap<*const Matched, &Arc<Matched>> =
        matched.iter().map(|matched| (Arc::as_ptr(matched), matched)).collect();
    let is_new: BTreeSet<&str> = new.iter().map(|policy| &*policy.name).collect();
    let mut known = BTreeSet::new();
    let mut meetings = Vec::new();
    for matched in distinct.values() {
        let places = matched.inbounds.values().chain(matched.listeners.values()).chain(matched.gateway.values());
        for policies in places {
            cancellation.check()?;
            let (new, others): (Vec<_>, Vec<_>) =
                policies.iter().cloned().partition(|policy| is_new.contains(&*policy.name));
            if !new.is_empty() && known.insert(policies.iter().map(|policy| policy.name.clone()).collect::<Vec<_>>()) {
                meetings.push(Meeting { others, new });
            }
        }
    }
    Ok(meetings)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use serde_json::{Value, json};

    use super::*;

    fn permission(name: &str, from: &[Value]) -> Arc<Policy> {
        let kind = kodiak_kinds::kinds().by_name("MeshTrafficPermission").unwrap();
        let items = from.iter().map(
            |tags| json!({ "targetRef": { "kind": "MeshSubset", "tags": tags }, "default": { "action": "Allow" } }),
        );
        let spec = json!({ "from": items.collect::<Vec<_>>() });
        let body = Body::read(kind.policy.as_ref().unwrap(), &spec).unwrap();
        let (mesh, name) = ("default".into(), name.into());
        callers(&Policy { kind, mesh, name, labels: Arc::default(), body }).unwrap()
    }

    #[test]
    fn proxies_are_evaluated_only_when_all_policies_together_are_too_many() {
        let asked = Cell::new(0);
        let blamed = |others: &[Arc<Policy>], new: Arc<Policy>| {
            let ask = || {
                asked.set(asked.get() + 1);
                Ok(Vec::new())
            };
            combinations_error(others, &[new], ask, &Cancellation::never()).unwrap()
        };
        let many: Vec<_> = (0..2_000)
            .map(|n| permission(&format!("p-{n}"), &[json!({ "kuma.io/service": format!("s-{n}") })]))
            .collect();
        let new = permission("new", &[json!({ "kuma.io/service": "new" })]);
        assert!(blamed(&many, new).is_none());
        assert_eq!(asked.get(), 0);
        let wide: Vec<Value> = (0..20).map(|n| json!({ format!("key-{n}"): "x" })).collect();
        assert!(blamed(&many, permission("new", &wide)).is_none(), "they never meet");
        assert_eq!(asked.get(), 1);
    }

    #[test]
    fn new_policy_is_accepted_where_there_were_too_many_before() {
        let wide: Vec<Value> = (0..20).map(|n| json!({ format!("key-{n}"): "x" })).collect();
        let wide = permission("wide", &wide);
        let narrow = permission("narrow", &[json!({ "a": "b" })]);
        let blamed = |other: &Arc<Policy>, new: &Arc<Policy>| {
            let meeting = || Ok(vec![Meeting { others: vec![other.clone()], new: vec![new.clone()] }]);
            let (other, new) = (std::slice::from_ref(other), std::slice::from_ref(new));
            combinations_error(other, new, meeting, &Cancellation::never()).unwrap()
        };
        assert!(blamed(&wide, &narrow).is_none());
        let (policy, found) = blamed(&narrow, &wide).unwrap();
        let found = found.to_string();
        assert_eq!(&*policy.name, "wide");
        assert!(found.starts_with("MeshTrafficPermission \"wide\":"), "{found}");
    }
}
