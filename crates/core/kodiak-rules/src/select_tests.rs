//! Tables of who selects whom, and the laws of the order.

use std::cmp::Ordering;

use kodiak_model::{Labels, TargetRef, kinds::dataplane::Dataplane};
use proptest::prelude::*;
use proptest::sample::{select as one_of, subsequence};
use serde_json::{Value, json};

use crate::{Meta, Policy, Selection, Shadow, precedence, select};

fn labels(pairs: &[(&str, &str)]) -> Labels {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

/// A sidecar in zone east and namespace shop, with two inbounds and a zone ingress.
fn sidecar() -> Dataplane {
    let networking = json!({
        "address": "10.0.0.1",
        "inbound": [
            { "port": 80, "tags": { "kuma.io/service": "web", "version": "v1" } },
            { "port": 90, "name": "metrics", "tags": { "kuma.io/service": "web-metrics", "team": "a" } },
        ],
        "listeners": [{ "type": "ZoneIngress", "port": 10001, "name": "ingress" }],
    });
    serde_json::from_value(json!({ "networking": networking })).unwrap()
}

fn gateway(gateway_type: &str) -> Dataplane {
    let gateway = json!({ "type": gateway_type, "tags": { "kuma.io/service": "edge" } });
    serde_json::from_value(json!({ "networking": { "address": "10.0.0.2", "gateway": gateway } })).unwrap()
}

fn proxy_labels() -> Labels {
    labels(&[
        ("app", "web"),
        ("kuma.io/origin", "zone"),
        ("kuma.io/zone", "east"),
        ("k8s.kuma.io/namespace", "shop"),
        ("kuma.io/display-name", "web-1"),
    ])
}

fn selected(policy: &[(&str, &str)], target: &Value, dataplane: &Dataplane, shadow: Shadow) -> Selection {
    let target: Option<TargetRef> = serde_json::from_value(target.clone()).unwrap();
    let (policy, proxy) = (labels(policy), proxy_labels());
    let meta = Meta { mesh: "default", name: "policy", labels: &policy };
    let proxy = Meta { mesh: "default", name: "web-1.shop", labels: &proxy };
    select(&Policy { meta, target: target.as_ref() }, &proxy, dataplane, shadow)
}

#[test]
fn a_target_selects_inbounds() {
    let own: &[_] = &[("kuma.io/origin", "zone"), ("kuma.io/zone", "east"), ("k8s.kuma.io/namespace", "shop")];
    let from_global: &[_] = &[("kuma.io/origin", "global")];
    for (policy, target, inbounds, listeners) in [
        (own, json!(null), &[0, 1][..], &[0][..]),
        (own, json!({ "kind": "Mesh" }), &[0, 1], &[0]),
        (own, json!({ "kind": "Mesh", "proxyTypes": ["Gateway"] }), &[], &[]),
        (own, json!({ "kind": "Mesh", "proxyTypes": ["Gateway", "Sidecar"] }), &[0, 1], &[0]),
        (own, json!({ "kind": "MeshSubset" }), &[0, 1], &[]),
        (own, json!({ "kind": "MeshSubset", "tags": { "version": "v1" } }), &[0], &[]),
        (own, json!({ "kind": "MeshSubset", "tags": { "version": "*" } }), &[0], &[]),
        // The tags of two inbounds are not added up.
        (own, json!({ "kind": "MeshSubset", "tags": { "version": "v1", "team": "a" } }), &[], &[]),
        (own, json!({ "kind": "MeshSubset", "tags": { "team": "a" }, "proxyTypes": ["Gateway"] }), &[], &[]),
        (own, json!({ "kind": "MeshService", "name": "web" }), &[0], &[]),
        (own, json!({ "kind": "MeshService", "labels": { "app": "web" } }), &[], &[]),
        (own, json!({ "kind": "MeshServiceSubset", "name": "web" }), &[0], &[]),
        (own, json!({ "kind": "MeshServiceSubset", "name": "web", "tags": { "version": "v2" } }), &[], &[]),
        (own, json!({ "kind": "MeshServiceSubset", "name": "web-metrics", "tags": { "team": "*" } }), &[1], &[]),
        (own, json!({ "kind": "Dataplane" }), &[0, 1], &[0]),
        (own, json!({ "kind": "Dataplane", "sectionName": "metrics" }), &[1], &[]),
        (own, json!({ "kind": "Dataplane", "sectionName": "80" }), &[0], &[]),
        (own, json!({ "kind": "Dataplane", "sectionName": "90" }), &[], &[]),
        (own, json!({ "kind": "Dataplane", "sectionName": "ingress" }), &[], &[0]),
        (own, json!({ "kind": "Dataplane", "labels": { "app": "web" } }), &[0, 1], &[0]),
        (own, json!({ "kind": "Dataplane", "labels": { "app": "web", "tier": "front" } }), &[], &[]),
        (own, json!({ "kind": "Dataplane", "labels": { "app": "web" }, "sectionName": "80" }), &[0], &[]),
        (own, json!({ "kind": "Dataplane", "name": "web-1" }), &[0, 1], &[0]),
        (own, json!({ "kind": "Dataplane", "name": "web-1.shop" }), &[], &[]),
        (own, json!({ "kind": "Dataplane", "name": "web-1", "namespace": "shop" }), &[0, 1], &[0]),
        (own, json!({ "kind": "Dataplane", "name": "web-1", "namespace": "other" }), &[], &[]),
        (own, json!({ "kind": "Dataplane", "namespace": "shop" }), &[], &[]),
        // The global control plane cannot name what is in a zone, but its labels are known.
        (from_global, json!({ "kind": "Dataplane", "name": "web-1", "namespace": "shop" }), &[], &[]),
        (from_global, json!({ "kind": "Dataplane", "labels": { "app": "web" } }), &[0, 1], &[0]),
        (own, json!({ "kind": "MeshGateway", "name": "edge" }), &[], &[]),
        (own, json!({ "kind": "MeshHTTPRoute", "name": "route" }), &[], &[]),
        (own, json!({ "kind": "Nonsense" }), &[], &[]),
    ] {
        let selection = selected(policy, &target, &sidecar(), Shadow::Ignored);
        let expected = Selection {
            proxy: !inbounds.is_empty() || !listeners.is_empty(),
            inbounds: inbounds.to_vec(),
            listeners: listeners.to_vec(),
        };
        assert_eq!(selection, expected, "{policy:?} {target}");
    }
}

#[test]
fn gateways_are_selected_as_a_whole() {
    for (target, delegated, builtin) in [
        (json!(null), true, true),
        (json!({ "kind": "Mesh", "proxyTypes": ["Gateway"] }), true, true),
        (json!({ "kind": "Mesh", "proxyTypes": ["Sidecar"] }), false, false),
        (json!({ "kind": "MeshService", "name": "edge" }), true, true),
        (json!({ "kind": "MeshService", "name": "other" }), false, false),
        (json!({ "kind": "Dataplane", "labels": { "app": "web" } }), true, false),
        (json!({ "kind": "Dataplane", "sectionName": "80" }), false, false),
    ] {
        let found = |kind| selected(&[], &target, &gateway(kind), Shadow::Ignored).proxy;
        assert_eq!((found("DELEGATED"), found("BUILTIN")), (delegated, builtin), "{target}");
    }
}

#[test]
fn labels_of_a_policy_say_whose_proxies_it_is_for() {
    for (policy, expected) in [
        (&[][..], true),
        (&[("kuma.io/origin", "global")], true),
        (&[("kuma.io/origin", "zone"), ("kuma.io/zone", "east")], true),
        (&[("kuma.io/origin", "zone"), ("kuma.io/zone", "west")], false),
        (&[("kuma.io/zone", "west")], true),
        (&[("kuma.io/origin", "zone"), ("kuma.io/zone", "west"), ("kuma.io/policy-role", "producer")], true),
        (&[("kuma.io/policy-role", "system"), ("k8s.kuma.io/namespace", "kuma-system")], true),
        (&[("kuma.io/policy-role", "workload-owner"), ("k8s.kuma.io/namespace", "shop")], true),
        (&[("kuma.io/policy-role", "workload-owner"), ("k8s.kuma.io/namespace", "other")], false),
        (&[("kuma.io/policy-role", "workload-owner")], false),
        (&[("kuma.io/policy-role", "consumer"), ("k8s.kuma.io/namespace", "shop")], true),
        (&[("kuma.io/policy-role", "consumer"), ("k8s.kuma.io/namespace", "other")], false),
        (&[("kuma.io/effect", "shadow")], false),
        (&[("kuma.io/effect", "other")], true),
    ] {
        assert_eq!(selected(policy, &json!(null), &sidecar(), Shadow::Ignored).proxy, expected, "{policy:?}");
    }
    assert!(selected(&[("kuma.io/effect", "shadow")], &json!(null), &sidecar(), Shadow::Included).proxy);
}

#[test]
fn a_policy_of_another_mesh_selects_nothing() {
    let none = Labels::new();
    let policy = Policy { meta: Meta { mesh: "other", name: "policy", labels: &none }, target: None };
    let proxy = Meta { mesh: "default", name: "web-1", labels: &none };
    assert_eq!(select(&policy, &proxy, &sidecar(), Shadow::Included), Selection::default());
}

/// Weakest first.
#[test]
fn the_narrower_the_origin_and_the_name_decide_in_this_order() {
    let zone: &[_] = &[("kuma.io/origin", "zone")];
    let global: &[_] = &[("kuma.io/origin", "global")];
    let owner: &[_] = &[("kuma.io/policy-role", "workload-owner")];
    let renamed: &[_] = &[("kuma.io/display-name", "a")];
    let ordered = [
        ("a", global, json!(null)),
        ("b", &[], json!({ "kind": "Mesh" })),
        ("z", renamed, json!({ "kind": "Mesh" })),
        ("a", &[], json!(null)),
        ("z", owner, json!(null)),
        ("z", zone, json!({ "kind": "Mesh" })),
        ("a", zone, json!({ "kind": "Dataplane", "labels": { "app": "web" } })),
        ("a", global, json!({ "kind": "Dataplane", "labels": { "app": "web" }, "sectionName": "80" })),
        ("z", global, json!({ "kind": "Dataplane", "name": "web-1" })),
        ("z", global, json!({ "kind": "Dataplane", "name": "web-1", "sectionName": "80" })),
        ("z", global, json!({ "kind": "MeshSubset" })),
        ("z", &[], json!({ "kind": "MeshGateway", "name": "edge" })),
        ("z", &[], json!({ "kind": "MeshGateway", "name": "edge", "tags": { "port": "80" } })),
        ("z", zone, json!({ "kind": "MeshGateway", "name": "edge" })),
        ("z", global, json!({ "kind": "MeshService", "name": "web" })),
        ("z", global, json!({ "kind": "MeshServiceSubset", "name": "web" })),
        ("z", global, json!({ "kind": "MeshHTTPRoute", "name": "route" })),
    ];
    let parts: Vec<(&str, Labels, Option<TargetRef>)> = ordered
        .iter()
        .map(|(name, pairs, target)| (*name, labels(pairs), serde_json::from_value(target.clone()).unwrap()))
        .collect();
    for (n, a) in parts.iter().enumerate() {
        for (m, b) in parts.iter().enumerate() {
            assert_eq!(compare(a, b), n.cmp(&m), "{:?} and {:?}", ordered[n], ordered[m]);
        }
    }
}

type Parts<'a> = (&'a str, Labels, Option<TargetRef>);

fn compare(a: &Parts<'_>, b: &Parts<'_>) -> Ordering {
    let [a, b] = [a, b]
        .map(|(name, labels, target)| Policy { meta: Meta { mesh: "default", name, labels }, target: target.as_ref() });
    precedence(&a, &b)
}

/// Few values each, so that ties are usual.
fn policies() -> impl Strategy<Value = Parts<'static>> {
    const LABELS: &[(&str, &str)] = &[
        ("kuma.io/origin", "zone"),
        ("kuma.io/zone", "east"),
        ("kuma.io/policy-role", "producer"),
        ("k8s.kuma.io/namespace", "shop"),
        ("kuma.io/display-name", "a"),
    ];
    const FIELDS: &[(&str, &str)] = &[("name", "x"), ("sectionName", "80"), ("namespace", "shop")];
    let target = (one_of(&["Mesh", "Dataplane", "MeshGateway", "MeshService"]), subsequence(FIELDS, 0..=3));
    let target = target.prop_map(|(kind, fields)| {
        let fields = fields.into_iter().chain([("kind", kind)]);
        let fields = fields.map(|(key, value)| (key.to_owned(), json!(value))).collect();
        serde_json::from_value(Value::Object(fields)).unwrap()
    });
    let labels = subsequence(LABELS, 0..=LABELS.len()).prop_map(|pairs| labels(&pairs));
    (one_of(&["a", "b", "c"]), labels, proptest::option::of(target))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_order_is_total(a in policies(), b in policies(), c in policies()) {
        prop_assert_eq!(compare(&a, &b), compare(&b, &a).reverse());
        if compare(&a, &b).is_le() && compare(&b, &c).is_le() {
            prop_assert!(compare(&a, &c).is_le());
        }
        // Names are unique in a mesh: two different policies are never equal.
        if a.0 != b.0 {
            prop_assert_ne!(compare(&a, &b), Ordering::Equal);
        }
    }
}
