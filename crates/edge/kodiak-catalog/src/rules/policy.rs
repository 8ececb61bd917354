//! Policies: those that match the same inbound must not have too many combinations of tags.
//!
//! Rules by tags are built for combinations of tags, so a few policies with many tags can result in millions. That is
//! detected when a policy is written, not when its rules are needed.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use kodiak_model::{Checked, FieldPath, Problems, TargetKind, policy::Body};
use kodiak_rules::{Matched, Policy, Shadow, subset};
use kodiak_store::{Record, Snapshot};

use crate::{
    Refusal, Stage,
    put::{key_of, write},
};

pub(super) fn before_put(snapshot: &Snapshot, checked: &Checked, old: Option<&Record>) -> Result<(), Refusal> {
    if old.is_some_and(|old| *old.spec == *checked.spec() && *old.labels == checked.labels) {
        return Ok(());
    }
    let (kind, key) = (checked.kind, key_of(checked));
    let after = snapshot.with(write(checked, snapshot).into())?;
    let new = after.world().get(&key).and_then(|new| callers(new.policy()?));
    let Some(new) = new.filter(|new| names_tags(new)) else { return Ok(()) };
    let others = snapshot.world().policies(kind, &checked.mesh).filter(|other| other.name != new.name);
    let others: Vec<Arc<Policy>> = others.filter_map(|other| callers(other)).collect();
    let Some(error) = combinations_error(&others, &new, || meetings(snapshot, &others, &new)) else { return Ok(()) };
    let mut problems = Problems::default();
    let message = format!("{error}; or match callers with `rules`");
    problems.add(&FieldPath::ROOT.field("spec").field("from"), message);
    Err(Refusal::invalid(if old.is_none() { Stage::Create } else { Stage::Update }, problems))
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

/// Whether the new policy causes too many combinations where it matches together with others. Matching is evaluated
/// only if all of them together would be too many.
fn combinations_error(
    others: &[Arc<Policy>],
    new: &Arc<Policy>,
    meetings: impl FnOnce() -> Vec<Vec<Arc<Policy>>>,
) -> Option<subset::RuleError> {
    // The first ones that are enough are reported. With the new one last, it is not reported if there were too many
    // without it.
    let blamed = |others: &[Arc<Policy>]| {
        let error = subset::explodes(&[others, std::slice::from_ref(new)].concat())?;
        let subset::RuleError::TooMany { policies, .. } = &error else { return None };
        policies.iter().any(|policy| policy.name == new.name).then_some(error)
    };
    subset::explodes(&[others, std::slice::from_ref(new)].concat())?;
    meetings().iter().find_map(|others| blamed(others))
}

/// The policies that match together with the new one, for each inbound that it matches.
fn meetings(snapshot: &Snapshot, others: &[Arc<Policy>], new: &Arc<Policy>) -> Vec<Vec<Arc<Policy>>> {
    let (mut policy_index, kind) = (snapshot.world().policy_index([], &new.mesh), new.kind.name);
    for policy in others.iter().chain([new]) {
        policy_index.set_policy(&(kind, policy.name.clone()), Some(policy.clone()));
    }
    let selected = policy_index.selected(new, Shadow::Included);
    let matched: Vec<Arc<Matched>> =
        selected.iter().map(|proxy| policy_index.matched(kind, proxy, Shadow::Included)).collect();
    // Equal results are shared.
    let distinct: BTreeMap<*const Matched, &Arc<Matched>> =
        matched.iter().map(|matched| (Arc::as_ptr(matched), matched)).collect();
    let mut known = BTreeSet::new();
    let mut meetings = Vec::new();
    for matched in distinct.values() {
        let places = matched.inbounds.values().chain(matched.listeners.values()).chain(matched.gateway.values());
        for policies in places.filter(|policies| policies.iter().any(|policy| policy.name == new.name)) {
            let others: Vec<Arc<Policy>> = policies.iter().filter(|policy| policy.name != new.name).cloned().collect();
            if known.insert(others.iter().map(|policy| policy.name.clone()).collect::<Vec<_>>()) {
                meetings.push(others);
            }
        }
    }
    meetings
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
        let ask = || {
            asked.set(asked.get() + 1);
            Vec::new()
        };
        let many: Vec<_> = (0..2_000)
            .map(|n| permission(&format!("p-{n}"), &[json!({ "kuma.io/service": format!("s-{n}") })]))
            .collect();
        let new = permission("new", &[json!({ "kuma.io/service": "new" })]);
        assert!(combinations_error(&many, &new, ask).is_none());
        assert_eq!(asked.get(), 0);
        let wide: Vec<Value> = (0..20).map(|n| json!({ format!("key-{n}"): "x" })).collect();
        assert!(combinations_error(&many, &permission("new", &wide), ask).is_none(), "they never meet");
        assert_eq!(asked.get(), 1);
    }

    #[test]
    fn new_policy_is_accepted_where_there_were_too_many_before() {
        let wide: Vec<Value> = (0..20).map(|n| json!({ format!("key-{n}"): "x" })).collect();
        let wide = permission("wide", &wide);
        let narrow = permission("narrow", &[json!({ "a": "b" })]);
        let meeting = |other: &Arc<Policy>| vec![vec![other.clone()]];
        let others = [wide.clone()];
        assert!(combinations_error(&others, &narrow, || meeting(&wide)).is_none());
        let found = combinations_error(std::slice::from_ref(&narrow), &wide, || meeting(&narrow)).unwrap().to_string();
        assert!(found.starts_with("MeshTrafficPermission \"wide\":"), "{found}");
    }
}
