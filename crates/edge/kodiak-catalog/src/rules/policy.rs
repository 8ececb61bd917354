//! Policies: those that match the same inbound must not have too many combinations of tags.
//!
//! Rules by tags are built for combinations of tags, so a few policies with many tags can result in millions. That is
//! detected when a policy is written, not when its rules are needed.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use kodiak_model::{
    Checked, FieldPath, Kind, Labels, Problems, ResourceKey, TargetKind,
    kinds::{
        dataplane::{self, Dataplane},
        mesh_gateway::{self, MeshGateway},
    },
    policy::Body,
};
use kodiak_rules::{Book, Gateway, Matched, Policy, Proxy, Shadow, subset};
use kodiak_store::{Record, Snapshot};

use crate::{Refusal, Stage, spec_of};

pub(super) fn before_put(snapshot: &Snapshot, checked: &Checked, old: Option<&Record>) -> Result<(), Refusal> {
    let Checked { kind, mesh, name, spec, labels, .. } = checked;
    if old.is_some_and(|old| *old.spec == **spec && *old.labels == *labels) {
        return Ok(());
    }
    let key = ResourceKey::in_mesh(kind.name, mesh, name);
    let Some(new) = policy(kind, &key, spec, Arc::new(labels.clone())).filter(|new| names_tags(new)) else {
        return Ok(());
    };
    let others = snapshot.list_in(kind.name, mesh).filter(|record| record.key != key);
    let others: Vec<Arc<Policy>> =
        others.filter_map(|record| policy(kind, &record.key, &record.spec, record.labels.clone())).collect();
    let Some(trouble) = trouble(&others, &new, || meetings(snapshot, &others, &new)) else { return Ok(()) };
    let mut problems = Problems::default();
    let message = format!("{trouble}; or match callers with `rules`");
    problems.add(&FieldPath::ROOT.field("spec").field("from"), message);
    Err(Refusal::invalid(if old.is_none() { Stage::Create } else { Stage::Update }, problems))
}

/// Of the policy, only what it says about callers. `None` when it says nothing, or cannot be read.
fn policy(kind: &'static Kind, key: &ResourceKey, spec: &str, labels: Arc<Labels>) -> Option<Arc<Policy>> {
    let facts = kind.policy.as_ref().filter(|facts| facts.from)?;
    let Body { target, from, .. } = Body::read(facts, &serde_json::from_str(spec).ok()?).ok()?;
    let ResourceKey { mesh, name, .. } = key.clone();
    let body = Body { target, from, ..Body::default() };
    (!body.from.is_empty()).then(|| Arc::new(Policy { kind, mesh, name, labels, body }))
}

/// Items for all callers add no combination.
fn names_tags(policy: &Policy) -> bool {
    policy.body.from.iter().any(|item| item.target.known_kind() != Some(TargetKind::Mesh))
}

/// Whether the new policy causes too many combinations where it matches together with others. Matching is evaluated
/// only if all of them together would be too many.
fn trouble(
    others: &[Arc<Policy>],
    new: &Arc<Policy>,
    meetings: impl FnOnce() -> Vec<Vec<Arc<Policy>>>,
) -> Option<subset::Trouble> {
    // The first ones that are enough are reported. With the new one last, it is not reported if there were too many
    // without it.
    let blamed = |others: &[Arc<Policy>]| {
        let trouble = subset::explodes(&[others, std::slice::from_ref(new)].concat())?;
        let subset::Trouble::TooMany { policies, .. } = &trouble else { return None };
        policies.iter().any(|policy| policy.name == new.name).then_some(trouble)
    };
    subset::explodes(&[others, std::slice::from_ref(new)].concat())?;
    meetings().iter().find_map(|others| blamed(others))
}

/// The policies that match together with the new one, for each inbound that it matches.
fn meetings(snapshot: &Snapshot, others: &[Arc<Policy>], new: &Arc<Policy>) -> Vec<Vec<Arc<Policy>>> {
    let (mut book, kind) = (Book::default(), new.kind.name);
    for policy in others.iter().chain([new]) {
        book.set_policy(&(kind, policy.name.clone()), Some(policy.clone()));
    }
    for record in snapshot.list_in(mesh_gateway::KIND.name, &new.mesh) {
        let Some(spec) = spec_of::<MeshGateway>(record).map(Arc::new) else { continue };
        let ResourceKey { mesh, name, .. } = record.key.clone();
        let gateway = Gateway { mesh, name: name.clone(), labels: record.labels.clone(), spec };
        book.set_gateway(&name, Some(Arc::new(gateway)));
    }
    for record in snapshot.list_in(dataplane::KIND.name, &new.mesh) {
        let Some(spec) = spec_of::<Dataplane>(record).map(Arc::new) else { continue };
        let ResourceKey { mesh, name, .. } = record.key.clone();
        let proxy = Proxy { mesh, name: name.clone(), labels: record.labels.clone(), dataplane: spec, admission: None };
        book.set_proxy(&name, Some(Arc::new(proxy)));
    }
    let selected = book.selected(new, Shadow::Included);
    let matched: Vec<Arc<Matched>> = selected.iter().map(|proxy| book.matched(kind, proxy, Shadow::Included)).collect();
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
        let spec = json!({ "from": items.collect::<Vec<_>>() }).to_string();
        policy(kind, &ResourceKey::in_mesh(kind.name, "default", name), &spec, Arc::default()).unwrap()
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
        assert!(trouble(&many, &new, ask).is_none());
        assert_eq!(asked.get(), 0);
        let wide: Vec<Value> = (0..20).map(|n| json!({ format!("key-{n}"): "x" })).collect();
        assert!(trouble(&many, &permission("new", &wide), ask).is_none(), "they never meet");
        assert_eq!(asked.get(), 1);
    }

    #[test]
    fn new_policy_is_accepted_where_there_were_too_many_before() {
        let wide: Vec<Value> = (0..20).map(|n| json!({ format!("key-{n}"): "x" })).collect();
        let wide = permission("wide", &wide);
        let narrow = permission("narrow", &[json!({ "a": "b" })]);
        let meeting = |other: &Arc<Policy>| vec![vec![other.clone()]];
        let others = [wide.clone()];
        assert!(trouble(&others, &narrow, || meeting(&wide)).is_none());
        let found = trouble(std::slice::from_ref(&narrow), &wide, || meeting(&narrow)).unwrap().to_string();
        assert!(found.starts_with("MeshTrafficPermission \"wide\":"), "{found}");
    }
}
