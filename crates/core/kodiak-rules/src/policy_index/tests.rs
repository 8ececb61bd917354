//! The index returns the same as a full scan, without scanning.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use kodiak_model::{Kind, Labels};
use proptest::prelude::*;
use proptest::sample::{select as one_of, subsequence};
use serde_json::{Value, json};

use super::{PolicyIndex, PolicyKey};
use crate::{
    Gateway, Matched, Policy, Proxy, Routes, SelectionContext, Shadow, gateway, precedence, select,
    select_tests::{ROUTE, TIMEOUT, labels, mesh_gateway, policy, proxy},
};

fn service(name: &str, service: &str) -> Arc<Proxy> {
    let inbound = json!([{ "port": 80, "tags": { "kuma.io/service": service, "kuma.io/protocol": "http" } }]);
    let dataplane = json!({ "networking": { "address": "10.0.0.1", "inbound": inbound } });
    Arc::new(proxy(name, labels(&[("app", service)]), serde_json::from_value(dataplane).unwrap()))
}

fn key(policy: &Policy) -> PolicyKey {
    (policy.kind.name, Arc::clone(&policy.name))
}

#[test]
fn lookup_compares_only_few_policies() {
    let mut policy_index = PolicyIndex::default();
    for n in 0..1000 {
        let proxy = service(&format!("proxy-{n}"), &format!("service-{n}"));
        policy_index.set_proxy(&Arc::clone(&proxy.name), Some(proxy));
    }
    let targets = |n: i32| match n % 4 {
        0 => json!({ "kind": "MeshService", "name": format!("service-{n}") }),
        1 => json!({ "kind": "Dataplane", "labels": { "app": format!("service-{n}") } }),
        2 => {
            json!({ "kind": "MeshSubset", "tags": { "kuma.io/protocol": "http", "kuma.io/service": format!("service-{n}") } })
        }
        _ => json!({ "kind": "Dataplane", "name": format!("proxy-{n}") }),
    };
    for n in 0..1000 {
        let policy = policy(&TIMEOUT, &format!("policy-{n}"), Labels::new(), &targets(n));
        assert_eq!(policy_index.set_policy(&key(&policy), Some(policy)), [Arc::from(format!("proxy-{n}"))].into());
    }
    assert_eq!(policy_index.looked_at(), 1000, "a policy looks at the proxies that it selects");
    for n in 0..1000 {
        let matched = policy_index.matched("MeshTimeout", &format!("proxy-{n}"), Shadow::Ignored);
        assert_eq!(matched.proxy.len(), 1);
    }
    assert_eq!(policy_index.looked_at(), 2000);
}

#[test]
fn equal_results_are_shared() {
    let mut policy_index = PolicyIndex::default();
    for (name, of) in [("web-1", "web"), ("web-2", "web"), ("api-1", "api")] {
        policy_index.set_proxy(&name.into(), Some(service(name, of)));
    }
    let everyone = policy(&TIMEOUT, "everyone", Labels::new(), &json!(null));
    let web = policy(&TIMEOUT, "web", Labels::new(), &json!({ "kind": "MeshService", "name": "web" }));
    for each in [&everyone, &web] {
        policy_index.set_policy(&key(each), Some(Arc::clone(each)));
    }
    let ask = |policy_index: &PolicyIndex, name| policy_index.matched("MeshTimeout", name, Shadow::Ignored);
    let before = ask(&policy_index, "web-1");
    assert!(Arc::ptr_eq(&before, &ask(&policy_index, "web-2")));
    assert!(Arc::ptr_eq(&before, &policy_index.matched_by("MeshTimeout", &service("web-3", "web"), Shadow::Ignored)));
    assert!(!Arc::ptr_eq(&before, &ask(&policy_index, "api-1")));
    assert!(policy_index.set_policy(&key(&web), Some(Arc::clone(&web))).is_empty(), "nothing changed");
    assert!(Arc::ptr_eq(&before, &ask(&policy_index, "web-1")));

    let changed = policy(&TIMEOUT, "web", labels(&[("a", "b")]), &json!({ "kind": "MeshService", "name": "web" }));
    assert_eq!(policy_index.set_policy(&key(&web), Some(changed)), ["web-1".into(), "web-2".into()].into());
    assert!(!Arc::ptr_eq(&before, &ask(&policy_index, "web-1")));
}

#[test]
fn unused_results_are_dropped() {
    let mut policy_index = PolicyIndex::default();
    for n in 0..5000 {
        let policy = policy(&TIMEOUT, "policy", labels(&[("n", &n.to_string())]), &json!(null));
        policy_index.set_policy(&key(&policy), Some(policy));
        assert_eq!(policy_index.matched_by("MeshTimeout", &service("web-1", "web"), Shadow::Ignored).proxy.len(), 1);
    }
    assert!(policy_index.interner.len() < 3000, "{} are kept", policy_index.interner.len());
}

/// All resources, without an index.
#[derive(Default)]
struct Everything {
    policies: BTreeMap<PolicyKey, Arc<Policy>>,
    proxies: BTreeMap<Arc<str>, Arc<Proxy>>,
    gateways: BTreeMap<Arc<str>, Arc<Gateway>>,
}

impl Everything {
    fn matched(&self, kind: &str, proxy: &Proxy, shadow: Shadow) -> Matched {
        let routes: Routes = self.policies.values().filter(|policy| policy.kind.name == ROUTE.name).cloned().collect();
        let gateway = gateway::of(proxy, self.gateways.values()).map(|gateway| &**gateway);
        let mut policies: Vec<_> = self.policies.values().filter(|policy| policy.kind.name == kind).collect();
        policies.sort_by(|a, b| precedence(a, b));
        let mut matched = Matched::default();
        for policy in policies {
            matched.add(policy, &select(policy, proxy, SelectionContext { gateway, routes: Some(&routes) }, shadow));
        }
        matched
    }

    /// Results of all lookups.
    fn answers(&self) -> BTreeMap<Arc<str>, Vec<Matched>> {
        let of = |proxy: &Proxy| QUESTIONS.map(|(kind, shadow)| self.matched(kind, proxy, shadow)).into();
        self.proxies.iter().map(|(name, proxy)| (Arc::clone(name), of(proxy))).collect()
    }
}

const QUESTIONS: [(&str, Shadow); 3] =
    [("MeshTimeout", Shadow::Ignored), ("MeshTimeout", Shadow::Included), ("MeshHTTPRoute", Shadow::Ignored)];

#[derive(Debug, Clone)]
enum Edit {
    Policy(PolicyKey, Option<Arc<Policy>>),
    Proxy(Arc<str>, Option<Arc<Proxy>>),
    Gateway(Arc<str>, Option<Arc<Gateway>>),
}

/// Few values each, so that they match.
fn some_labels() -> impl Strategy<Value = Labels> {
    const LABELS: &[(&str, &[&str])] = &[
        ("kuma.io/origin", &["zone", "global"]),
        ("kuma.io/zone", &["east", "west"]),
        ("kuma.io/policy-role", &["producer", "workload-owner"]),
        ("k8s.kuma.io/namespace", &["shop", "bank"]),
        ("kuma.io/display-name", &["a", "b"]),
        ("kuma.io/effect", &["shadow"]),
        ("app", &["a", "b"]),
    ];
    subsequence(LABELS, 0..=3).prop_flat_map(|picked| {
        let pairs: Vec<_> = picked.into_iter().map(|(key, values)| (Just(key), one_of(values))).collect();
        pairs.prop_map(|pairs| labels(&pairs))
    })
}

fn tags(values: &'static [&'static str]) -> impl Strategy<Value = Labels> {
    let pairs = subsequence(&["kuma.io/service", "version", "team"][..], 0..=2);
    pairs.prop_flat_map(move |keys| {
        let pairs: Vec<_> = keys.into_iter().map(|key| (Just(key), one_of(values))).collect();
        pairs.prop_map(|pairs| labels(&pairs))
    })
}

fn targets() -> impl Strategy<Value = Value> {
    let name = one_of(&["a", "b"][..]);
    let wanted = tags(&["a", "b", "*"]);
    prop_oneof![
        1 => Just(json!(null)),
        1 => one_of(&["Sidecar", "Gateway"][..]).prop_map(|of| json!({ "kind": "Mesh", "proxyTypes": [of] })),
        1 => wanted.prop_map(|tags| json!({ "kind": "MeshSubset", "tags": tags })),
        1 => name.clone().prop_map(|name| json!({ "kind": "MeshService", "name": name })),
        1 => (name.clone(), tags(&["a", "*"]))
            .prop_map(|(name, tags)| json!({ "kind": "MeshServiceSubset", "name": name, "tags": tags })),
        1 => name.clone().prop_map(|name| json!({ "kind": "Dataplane", "name": name })),
        1 => some_labels().prop_map(|labels| json!({ "kind": "Dataplane", "labels": labels })),
        1 => one_of(&["80", "x"][..]).prop_map(|section| json!({ "kind": "Dataplane", "sectionName": section })),
        1 => (name.clone(), tags(&["a", "b"]))
            .prop_map(|(name, tags)| json!({ "kind": "MeshGateway", "name": name, "tags": tags })),
        // Frequent, since three resources must match: the route, the policy for it and a proxy.
        4 => name.prop_map(|name| json!({ "kind": "MeshHTTPRoute", "name": name })),
        1 => Just(json!({ "kind": "MeshMultiZoneService", "name": "a" })),
    ]
}

fn dataplanes() -> impl Strategy<Value = Value> {
    const VALUES: &[&str] = &["a", "b"];
    let inbound = tags(VALUES).prop_map(|tags| json!({ "port": 80, "tags": tags }));
    let gateway = (one_of(&["BUILTIN", "BUILTIN", "DELEGATED"][..]), tags(VALUES));
    prop_oneof![
        proptest::collection::vec(inbound, 0..3).prop_map(|inbound| json!({ "inbound": inbound })),
        gateway.prop_map(|(of, tags)| json!({ "gateway": { "type": of, "tags": tags } })),
    ]
}

fn gateways() -> impl Strategy<Value = Value> {
    let listener = tags(&["a", "b"]).prop_map(|tags| json!({ "port": 80, "tags": tags }));
    let parts = (tags(&["a", "*"]), tags(&["a", "b"]), proptest::collection::vec(listener, 0..3));
    parts.prop_map(|(selector, tags, listeners)| {
        json!({ "selectors": [{ "match": selector }], "tags": tags, "conf": { "listeners": listeners } })
    })
}

fn edits() -> impl Strategy<Value = Edit> {
    let name = || one_of(&["a", "b", "c", "d"][..]);
    let some = || proptest::bool::weighted(0.8);
    let policies = (one_of(&[0, 1][..]), one_of(&["a", "b", "c"][..]), some_labels(), targets(), some());
    let proxies = (name(), some_labels(), dataplanes(), some());
    let all_gateways = (name(), some_labels(), gateways(), some());
    prop_oneof![
        4 => policies.prop_map(|(kind, name, labels, target, some)| {
            let kind: &'static Kind = [&TIMEOUT, &ROUTE][kind];
            Edit::Policy((kind.name, name.into()), some.then(|| policy(kind, name, labels, &target)))
        }),
        2 => proxies.prop_map(|(name, labels, networking, some)| {
            let dataplane = serde_json::from_value(json!({ "networking": networking })).unwrap();
            Edit::Proxy(name.into(), some.then(|| Arc::new(proxy(name, labels, dataplane))))
        }),
        1 => all_gateways.prop_map(|(name, labels, spec, some)| {
            Edit::Gateway(name.into(), some.then(|| mesh_gateway(name, labels, spec)))
        }),
    ]
}

fn put<K: Ord + Clone, V: Clone>(map: &mut BTreeMap<K, V>, key: &K, value: Option<&V>) {
    match value {
        Some(value) => map.insert(key.clone(), value.clone()),
        None => map.remove(key),
    };
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn index_equals_a_full_scan(edits in proptest::collection::vec(edits(), 1..40)) {
        let (mut policy_index, mut everything) = (PolicyIndex::default(), Everything::default());
        let mut before = everything.answers();
        for edit in edits {
            let concerned = match &edit {
                Edit::Policy(key, policy) => {
                    put(&mut everything.policies, key, policy.as_ref());
                    policy_index.set_policy(key, policy.clone())
                }
                Edit::Gateway(name, gateway) => {
                    put(&mut everything.gateways, name, gateway.as_ref());
                    policy_index.set_gateway(name, gateway.clone())
                }
                Edit::Proxy(name, proxy) => {
                    put(&mut everything.proxies, name, proxy.as_ref());
                    policy_index.set_proxy(name, proxy.clone());
                    BTreeSet::from([Arc::clone(name)])
                }
            };
            let after = everything.answers();
            for (name, answers) in &after {
                for ((kind, shadow), expected) in QUESTIONS.into_iter().zip(answers) {
                    prop_assert_eq!(&*policy_index.matched(kind, name, shadow), expected);
                    prop_assert_eq!(&*policy_index.matched_by(kind, &everything.proxies[name], shadow), expected);
                }
                prop_assert!(concerned.contains(name) || before.get(name) == Some(answers), "{name} is not in {concerned:?} of {edit:?}");
            }
            if let Edit::Policy(_, Some(policy)) = &edit {
                let is_about = |name: &Arc<str>| {
                    let matched = policy_index.matched(policy.kind.name, name, Shadow::Included);
                    matched.proxy.iter().any(|each| each.name == policy.name)
                };
                let expected: BTreeSet<_> = everything.proxies.keys().filter(|name| is_about(name)).cloned().collect();
                prop_assert_eq!(policy_index.selected(policy, Shadow::Included), expected);
            }
            before = after;
        }
    }
}
