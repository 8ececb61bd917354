//! The indexes return the same as asking each policy about each proxy, without asking.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use kodiak_model::Labels;
use proptest::{prelude::*, sample::select as one_of};
use serde_json::{Value, json};

use super::*;
use crate::{
    Policy, PolicyIndex, Shadow,
    policy_index::PolicyKey,
    select_tests::{TIMEOUT, labels, policy, proxy},
};

/// A proxy with these tags and labels. An empty name is unknown.
fn stand_in(name: &str, tags: &Labels, own: Labels) -> Proxy {
    let inbound = json!([{ "port": 80, "tags": tags }]);
    proxy(name, own, serde_json::from_value(json!({ "networking": { "inbound": inbound } })).unwrap())
}

fn key(policy: &Policy) -> PolicyKey {
    (policy.kind.name, Arc::clone(&policy.name))
}

fn names<'a>(policies: impl IntoIterator<Item = &'a Arc<Policy>>) -> BTreeSet<&'a str> {
    policies.into_iter().map(|policy| &*policy.name).collect()
}

#[test]
fn change_of_a_policy_costs_the_proxies_that_it_may_select() {
    for size in [100, 200] {
        let (mut index, mut proxies) = (PolicyIndex::default(), PartialProxies::default());
        let by_label = |n: usize, version: &str| {
            let target = json!({ "kind": "Dataplane", "labels": { "app": format!("app-{n}") } });
            policy(&TIMEOUT, &format!("label-{n}"), labels(&[("version", version)]), &target)
        };
        let by_tag = |n: usize, version: &str| {
            let target = json!({ "kind": "MeshService", "name": format!("service-{n}") });
            policy(&TIMEOUT, &format!("tag-{n}"), labels(&[("version", version)]), &target)
        };
        let mut all = Vec::new();
        for n in 0..size {
            let tags = labels(&[("kuma.io/service", &format!("service-{n}"))]);
            all.push(PartialProxy::of(&stand_in("", &tags, Labels::new())));
            proxies.set(&n, Some(all[n].clone()));
            for policy in [by_label(n, "1"), by_tag(n, "1")] {
                index.set_policy(&key(&policy), Some(policy));
            }
        }
        let cost = |index: &mut PolicyIndex, policy: &Arc<Policy>| {
            index.set_policy(&key(policy), Some(Arc::clone(policy)));
            let before = index.looked_at();
            let selected: Vec<usize> = proxies.selected_by(policy).copied().collect();
            for n in &selected {
                let possible = index.possible(TIMEOUT.name, &all[*n], Shadow::Ignored);
                assert_eq!((possible.group.policies().len(), possible.others.len()), (size, 1));
            }
            (selected.len(), index.looked_at() - before)
        };
        cost(&mut index, &by_label(0, "2"));
        let each = size as u64;
        assert_eq!(cost(&mut index, &by_tag(0, "2")), (1, 1));
        assert_eq!(cost(&mut index, &by_label(0, "3")), (size, 2 * each), "one group, and one policy of each proxy");
    }
}

#[test]
fn group_is_shared_until_one_of_its_policies_changes() {
    let mut index = PolicyIndex::default();
    let of = |service: &str| PartialProxy::of(&stand_in("", &labels(&[("kuma.io/service", service)]), Labels::new()));
    let group = |index: &PolicyIndex, service| index.possible(TIMEOUT.name, &of(service), Shadow::Ignored).group;
    let own = policy(&TIMEOUT, "own", Labels::new(), &json!({ "kind": "MeshService", "name": "a" }));
    let app = policy(&TIMEOUT, "app", Labels::new(), &json!({ "kind": "Dataplane", "labels": { "app": "x" } }));
    let first = group(&index, "a");
    index.set_policy(&key(&own), Some(own));
    assert!(Arc::ptr_eq(&first, &group(&index, "b")), "its policies are the same");
    index.set_policy(&key(&app), Some(app));
    let second = group(&index, "a");
    assert_eq!(names(second.policies()), ["app"].into());
    let count = |policies: &[Arc<Policy>]| policies.len();
    assert!(Arc::ptr_eq(&second.derived(count), &group(&index, "b").derived(count)), "it is computed once");
}

fn some_tags() -> impl Strategy<Value = Labels> {
    let pair = (one_of(&["kuma.io/service", "kuma.io/zone", "app"][..]), one_of(&["a", "b"][..]));
    proptest::collection::vec(pair, 0..3).prop_map(|pairs| labels(&pairs))
}

fn target() -> impl Strategy<Value = Value> {
    let pairs = || {
        let pair = (one_of(&["kuma.io/service", "kuma.io/zone", "app"][..]), one_of(&["a", "b", "*"][..]));
        proptest::collection::vec(pair, 0..3).prop_map(|pairs| labels(&pairs))
    };
    prop_oneof![
        Just(json!(null)),
        one_of(&["Sidecar", "Gateway"][..]).prop_map(|of| json!({ "kind": "Mesh", "proxyTypes": [of] })),
        pairs().prop_map(|tags| json!({ "kind": "MeshSubset", "tags": tags })),
        one_of(&["a", "b"][..]).prop_map(|name| json!({ "kind": "MeshService", "name": name })),
        pairs().prop_map(|tags| json!({ "kind": "MeshServiceSubset", "name": "a", "tags": tags })),
        pairs().prop_map(|labels| json!({ "kind": "Dataplane", "labels": labels })),
        one_of(&["a", "b"][..]).prop_map(|name| json!({ "kind": "Dataplane", "name": name })),
        Just(json!({ "kind": "MeshGateway", "name": "a" })),
    ]
}

#[derive(Debug, Clone)]
enum Edit {
    Policy(usize, Option<(Value, bool)>),
    Proxy(usize, Option<(String, Labels, Labels)>),
}

fn edit() -> impl Strategy<Value = Edit> {
    let proxy = (one_of(&["", "a"][..]).prop_map(str::to_owned), some_tags(), some_tags());
    prop_oneof![
        (0..4usize, proptest::option::weighted(0.8, (target(), any::<bool>()))).prop_map(|(n, to)| Edit::Policy(n, to)),
        (0..4usize, proptest::option::weighted(0.8, proxy)).prop_map(|(n, to)| Edit::Proxy(n, to)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn indexes_equal_a_full_scan(edits in proptest::collection::vec(edit(), 1..30)) {
        let (mut index, mut proxies) = (PolicyIndex::default(), PartialProxies::default());
        let (mut policies, mut stand_ins) = (BTreeMap::new(), BTreeMap::new());
        for edit in edits {
            match edit {
                Edit::Policy(n, to) => {
                    let name = format!("policy-{n}");
                    let new = to.map(|(target, is_shadow)| {
                        let effect = if is_shadow { labels(&[("kuma.io/effect", "shadow")]) } else { Labels::new() };
                        policy(&TIMEOUT, &name, effect, &target)
                    });
                    index.set_policy(&(TIMEOUT.name, name.as_str().into()), new.clone());
                    match new {
                        Some(new) => drop(policies.insert(n, new)),
                        None => drop(policies.remove(&n)),
                    }
                }
                Edit::Proxy(n, to) => {
                    let new = to.map(|(name, tags, own)| stand_in(&name, &tags, own));
                    proxies.set(&n, new.as_ref().map(PartialProxy::of));
                    match new {
                        Some(new) => drop(stand_ins.insert(n, new)),
                        None => drop(stand_ins.remove(&n)),
                    }
                }
            }
            let may = |policy: &Policy, proxy: &Proxy| PartialProxy::of(proxy).may_be_selected(policy.body.target.as_ref());
            for policy in policies.values() {
                let expected: BTreeSet<usize> =
                    stand_ins.iter().filter(|(_, proxy)| may(policy, proxy)).map(|(n, _)| *n).collect();
                prop_assert_eq!(proxies.selected_by(policy).copied().collect::<BTreeSet<_>>(), expected);
            }
            for (proxy, shadow) in stand_ins.values().flat_map(|proxy| [(proxy, Shadow::Ignored), (proxy, Shadow::Included)]) {
                let expected = policies.values().filter(|policy| may(policy, proxy));
                let expected = expected.filter(|policy| shadow == Shadow::Included || !policy.meta().is_shadow());
                let Possible { group, others } = index.possible(TIMEOUT.name, &PartialProxy::of(proxy), shadow);
                prop_assert_eq!(names(group.policies().iter().chain(&others)), names(expected));
                let certain = index.matched_by(TIMEOUT.name, proxy, shadow);
                prop_assert!(names(group.policies()).is_disjoint(&names(&certain.proxy)));
                prop_assert!(names(&certain.proxy).is_subset(&names(&others)));
            }
        }
    }
}
