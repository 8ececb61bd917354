//! Policies at the zone egress: for a service outside the mesh, which has tags but no proxy.

use std::{collections::BTreeMap, sync::Arc};

use kodiak_model::{
    Choice, TargetKind, TargetRef,
    policy::{Body, Item},
    tags,
};

use crate::{Policy, precedence, select::kind_of, tags::Tags};

/// Policies that select a service with these tags, in ascending precedence.
pub fn about(policies: &[Arc<Policy>], service: &BTreeMap<String, String>) -> Vec<Arc<Policy>> {
    let meant = policies.iter().filter(|policy| is_meant(policy.body.target.as_ref(), service));
    sorted(meant.map(Arc::clone))
}

/// Policies for callers of a service with these tags, in ascending precedence, inverted: the callers' `to` items become
/// `from` items of the service.
pub fn turned(policies: &[Arc<Policy>], service: &BTreeMap<String, String>) -> Vec<Arc<Policy>> {
    sorted(policies.iter().filter_map(|policy| {
        let everyone = TargetRef { kind: Some(Choice::Known(TargetKind::Mesh)), ..TargetRef::default() };
        let callers = policy.body.target.clone().unwrap_or(everyone);
        let said = policy.body.to.iter().filter(|item| is_meant(Some(&item.target), service));
        let from: Vec<Item> = said.map(|item| Item { target: callers.clone(), conf: item.conf.clone() }).collect();
        let body = Body { from, target: Some(callers), ..Body::default() };
        (!body.from.is_empty()).then(|| Arc::new(Policy { body, ..(**policy).clone() }))
    }))
}

fn sorted(policies: impl Iterator<Item = Arc<Policy>>) -> Vec<Arc<Policy>> {
    let mut policies: Vec<_> = policies.filter(|policy| !policy.meta().is_shadow()).collect();
    policies.sort_by(|a, b| precedence(a, b));
    policies
}

fn is_meant(target: Option<&TargetRef>, service: &BTreeMap<String, String>) -> bool {
    let own = Tags(&[service]);
    let named = |target: &TargetRef| target.name.as_deref().is_some_and(|name| own.has(tags::SERVICE, name));
    let tagged = |target: &TargetRef| target.tags.as_ref().is_none_or(|wanted| own.have_all(wanted));
    match kind_of(target) {
        Some(TargetKind::Mesh) => true,
        Some(TargetKind::MeshSubset) => target.is_none_or(tagged),
        Some(TargetKind::MeshService) => target.is_some_and(named),
        Some(TargetKind::MeshServiceSubset) => target.is_some_and(|target| named(target) && tagged(target)),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use kodiak_model::{Labels, policy::Conf};
    use serde_json::{Value, json};

    use super::*;
    use crate::select_tests::{TIMEOUT, labels, policy};

    fn database() -> Labels {
        labels(&[("kuma.io/service", "database"), ("version", "v1")])
    }

    #[test]
    fn target_selects_a_service_by_tags() {
        for (target, expected) in [
            (json!(null), true),
            (json!({ "kind": "MeshSubset", "tags": { "version": "v1" } }), true),
            (json!({ "kind": "MeshSubset", "tags": { "version": "v2" } }), false),
            (json!({ "kind": "MeshService", "name": "database" }), true),
            (json!({ "kind": "MeshService", "name": "other" }), false),
            (json!({ "kind": "MeshServiceSubset", "name": "database", "tags": { "version": "*" } }), true),
            (json!({ "kind": "MeshServiceSubset", "name": "database", "tags": { "team": "*" } }), false),
            (json!({ "kind": "Dataplane" }), false),
        ] {
            let policies = [policy(&TIMEOUT, "policy", Labels::new(), &target)];
            assert_eq!(!about(&policies, &database()).is_empty(), expected, "{target}");
        }
        let tried_out = [policy(&TIMEOUT, "policy", labels(&[("kuma.io/effect", "shadow")]), &json!(null))];
        assert!(about(&tried_out, &database()).is_empty());
    }

    #[test]
    fn to_items_of_callers_become_from_items_of_the_service() {
        let item = |target: Value, conf: u32| Item {
            target: serde_json::from_value(target).unwrap(),
            conf: Conf::new(json!(conf)),
        };
        let mut told =
            (*policy(&TIMEOUT, "told", Labels::new(), &json!({ "kind": "MeshService", "name": "web" }))).clone();
        told.body.to = vec![
            item(json!({ "kind": "MeshService", "name": "database" }), 1),
            item(json!({ "kind": "MeshService", "name": "other" }), 2),
            item(json!({ "kind": "Mesh" }), 3),
        ];
        let mut other = told.clone();
        other.body.to.remove(0);
        other.body.to.pop();
        let turned = turned(&[Arc::new(told), Arc::new(other)], &database());
        let from: Vec<&Item> = turned.iter().flat_map(|policy| &policy.body.from).collect();
        let web = |conf| item(json!({ "kind": "MeshService", "name": "web" }), conf);
        assert_eq!(from, [&web(1), &web(3)]);
    }
}
