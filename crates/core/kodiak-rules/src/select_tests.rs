//! Tables of selections, and properties of the order.

use std::{cmp::Ordering, sync::Arc};

use kodiak_model::{
    Kind, Labels, Language, PolicyFacts, TargetRef,
    kinds::{dataplane::Dataplane, mesh_gateway::MeshGateway},
    policy::{Body, ConfShape},
};
use proptest::prelude::*;
use proptest::sample::{select as one_of, subsequence};
use serde_json::{Value, json};

use crate::{Gateway, Policy, Proxy, Routes, Selection, SelectionContext, Shadow, gateway, precedence, select};

const FACTS: PolicyFacts =
    PolicyFacts { to: true, from: true, rules: true, from_as_rules: false, conf: ConfShape::Default, order: 0 };

/// Only the target matters here, so any spec will do.
pub(crate) static TIMEOUT: Kind =
    Kind::policy("MeshTimeout", "meshtimeouts", "mt", FACTS, Language::of::<MeshGateway>());
pub(crate) static ROUTE: Kind =
    Kind::policy("MeshHTTPRoute", "meshhttproutes", "mhttpr", FACTS, Language::of::<MeshGateway>());

pub(crate) fn labels(pairs: &[(&str, &str)]) -> Labels {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

pub(crate) fn policy(kind: &'static Kind, name: &str, labels: Labels, target: &Value) -> Arc<Policy> {
    let target: Option<TargetRef> = serde_json::from_value(target.clone()).unwrap();
    let body = Body { target, ..Body::default() };
    Arc::new(Policy { kind, mesh: "default".into(), name: name.into(), labels: Arc::new(labels), body })
}

pub(crate) fn proxy(name: &str, labels: Labels, dataplane: Dataplane) -> Proxy {
    Proxy {
        mesh: "default".into(),
        name: name.into(),
        labels: Arc::new(labels),
        dataplane: Arc::new(dataplane),
        admission: None,
    }
}

pub(crate) fn mesh_gateway(name: &str, labels: Labels, spec: Value) -> Arc<Gateway> {
    let spec = Arc::new(serde_json::from_value(spec).unwrap());
    Arc::new(Gateway { mesh: "default".into(), name: name.into(), labels: Arc::new(labels), spec })
}

/// A sidecar in zone east and namespace shop, with two inbounds, one of them ignored, and a zone ingress.
fn sidecar() -> Dataplane {
    let networking = json!({
        "address": "10.0.0.1",
        "inbound": [
            { "port": 80, "tags": { "kuma.io/service": "web", "version": "v1" } },
            { "port": 90, "name": "metrics", "state": "Ignored", "tags": { "kuma.io/service": "web-metrics", "team": "a" } },
        ],
        "listeners": [{ "type": "ZoneIngress", "port": 10001, "name": "ingress" }],
    });
    serde_json::from_value(json!({ "networking": networking })).unwrap()
}

fn gateway_proxy(gateway_type: &str) -> Dataplane {
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

fn selected(written: &[(&str, &str)], target: &Value, dataplane: &Dataplane, shadow: Shadow) -> Selection {
    selected_in(SelectionContext::default(), written, target, dataplane, shadow)
}

fn selected_in(
    context: SelectionContext<'_>,
    written: &[(&str, &str)],
    target: &Value,
    dataplane: &Dataplane,
    shadow: Shadow,
) -> Selection {
    let policy = policy(&TIMEOUT, "policy", labels(written), target);
    select(&policy, &proxy("web-1.shop", proxy_labels(), dataplane.clone()), context, shadow)
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
        // Tags of different inbounds are not combined.
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
        // The global control plane cannot reference a name in a zone, but labels match.
        (from_global, json!({ "kind": "Dataplane", "name": "web-1", "namespace": "shop" }), &[], &[]),
        (from_global, json!({ "kind": "Dataplane", "labels": { "app": "web" } }), &[0, 1], &[0]),
        (own, json!({ "kind": "MeshGateway", "name": "edge" }), &[], &[]),
    ] {
        let selection = selected(policy, &target, &sidecar(), Shadow::Ignored);
        let expected = Selection {
            proxy: !inbounds.is_empty() || !listeners.is_empty(),
            inbounds: inbounds.to_vec(),
            listeners: listeners.to_vec(),
            ..Selection::default()
        };
        assert_eq!(selection, expected, "{policy:?} {target}");
    }
}

#[test]
fn delegated_gateways_are_selected_as_a_whole() {
    for (target, delegated, builtin) in [
        (json!(null), true, true),
        (json!({ "kind": "Mesh", "proxyTypes": ["Gateway"] }), true, true),
        (json!({ "kind": "Mesh", "proxyTypes": ["Sidecar"] }), false, false),
        (json!({ "kind": "MeshService", "name": "edge" }), true, true),
        (json!({ "kind": "MeshService", "name": "other" }), false, false),
        (json!({ "kind": "Dataplane", "labels": { "app": "web" } }), true, false),
        (json!({ "kind": "Dataplane", "sectionName": "80" }), false, false),
    ] {
        let found = |kind| selected(&[], &target, &gateway_proxy(kind), Shadow::Ignored).proxy;
        assert_eq!((found("DELEGATED"), found("BUILTIN")), (delegated, builtin), "{target}");
    }
}

#[test]
fn origin_labels_limit_the_selected_proxies() {
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
    let mut policy = (*policy(&TIMEOUT, "policy", Labels::new(), &json!(null))).clone();
    policy.mesh = "other".into();
    let proxy = proxy("web-1", Labels::new(), sidecar());
    assert_eq!(select(&policy, &proxy, SelectionContext::default(), Shadow::Included), Selection::default());
}

fn edge(written: &[(&str, &str)]) -> Arc<Gateway> {
    let listeners = json!([
        { "port": 80, "protocol": "HTTP", "hostname": "a.example.com", "tags": { "port": "http", "team": "b" } },
        { "port": 80, "protocol": "HTTP", "hostname": "b.example.com", "tags": { "port": "http" } },
        { "port": 81, "protocol": "HTTP" },
    ]);
    let selectors = json!([{ "match": { "kuma.io/service": "edge" } }]);
    let spec = json!({ "selectors": selectors, "tags": { "team": "a" }, "conf": { "listeners": listeners } });
    mesh_gateway("edge.kuma-system", labels(&[&[("kuma.io/display-name", "edge")], written].concat()), spec)
}

#[test]
fn listeners_of_a_builtin_gateway_are_selected_by_their_tags() {
    let gateway = edge(&[]);
    let [a, b, all] = ["a.example.com", "b.example.com", "*"].map(str::to_owned);
    for (target, expected) in [
        (json!(null), &[(80, &a), (80, &b), (81, &all)][..]),
        (json!({ "kind": "Mesh", "proxyTypes": ["Sidecar"] }), &[]),
        (json!({ "kind": "MeshGateway", "name": "edge" }), &[(80, &a), (80, &b), (81, &all)]),
        (json!({ "kind": "MeshGateway", "name": "other" }), &[]),
        (json!({ "kind": "MeshGateway", "name": "edge.kuma-system" }), &[]),
        (json!({ "kind": "MeshGateway", "name": "edge", "tags": { "port": "http" } }), &[(80, &a), (80, &b)]),
        (json!({ "kind": "MeshGateway", "name": "edge", "tags": { "port": "*", "team": "b" } }), &[(80, &a)]),
        (json!({ "kind": "MeshGateway", "name": "edge", "tags": { "team": "a" } }), &[(80, &b), (81, &all)]),
        (json!({ "kind": "MeshSubset", "tags": { "port": "http" } }), &[(80, &a), (80, &b)]),
        (json!({ "kind": "MeshService", "name": "edge" }), &[(80, &a), (80, &b), (81, &all)]),
        (json!({ "kind": "MeshServiceSubset", "name": "edge", "tags": { "team": "c" } }), &[]),
        (json!({ "kind": "Dataplane", "labels": { "app": "web" } }), &[]),
    ] {
        let context = SelectionContext { gateway: Some(&gateway), routes: None };
        let found = selected_in(context, &[], &target, &gateway_proxy("BUILTIN"), Shadow::Ignored);
        let listeners: Vec<(u32, &String)> = found.gateway.iter().map(|each| (each.port, &each.hostname)).collect();
        assert_eq!(listeners, expected, "{target}");
        assert_eq!(found.proxy, !expected.is_empty(), "{target}");
    }
}

#[test]
fn zone_of_the_gateway_matters_not_that_of_its_proxy() {
    let from = |zone| [("kuma.io/origin", "zone"), ("kuma.io/zone", zone)];
    for (gateway, expected) in [(edge(&from("east")), false), (edge(&from("west")), true), (edge(&[]), true)] {
        let context = SelectionContext { gateway: Some(&gateway), routes: None };
        let found = selected_in(context, &from("west"), &json!(null), &gateway_proxy("BUILTIN"), Shadow::Ignored);
        assert_eq!(found.proxy, expected, "{gateway:?}");
    }
}

#[test]
fn proxy_gets_the_best_matching_gateway() {
    let gateway = |name: &str, written: &[(&str, &str)], selectors: &[&[(&str, &str)]]| {
        let selectors: Vec<Value> = selectors.iter().map(|tags| json!({ "match": labels(tags) })).collect();
        mesh_gateway(name, labels(written), json!({ "selectors": selectors }))
    };
    let service: &[_] = &[("kuma.io/service", "edge")];
    let any: &[_] = &[("kuma.io/service", "*")];
    let both: &[_] = &[("kuma.io/service", "edge"), ("team", "*")];
    let other: &[_] = &[("kuma.io/service", "other")];
    let west: &[_] = &[("kuma.io/origin", "zone"), ("kuma.io/zone", "west")];
    let east: &[_] = &[("kuma.io/origin", "zone"), ("kuma.io/zone", "east")];
    for (gateways, expected) in [
        (vec![gateway("b", &[], &[service]), gateway("a", &[], &[service])], Some("a")),
        (vec![gateway("a", &[], &[any]), gateway("b", &[], &[service])], Some("b")),
        (vec![gateway("a", &[], &[service]), gateway("b", &[], &[both])], Some("a")),
        (vec![gateway("a", &[], &[any]), gateway("b", &[], &[other, service])], Some("b")),
        (vec![gateway("a", west, &[service]), gateway("b", east, &[any])], Some("b")),
        (vec![gateway("a", &[], &[other]), gateway("b", &[], &[])], None),
    ] {
        let taken = |kind| {
            let proxy = proxy("edge-1", proxy_labels(), gateway_proxy(kind));
            gateway::of(&proxy, &gateways).map(|gateway| &*gateway.name)
        };
        assert_eq!(taken("BUILTIN"), expected, "{gateways:?}");
        assert_eq!(taken("DELEGATED"), None);
    }
}

#[test]
fn policy_for_a_route_selects_the_proxies_of_the_route() {
    let route = |name: &str, written: &[(&str, &str)], target| policy(&ROUTE, name, labels(written), &target);
    let routes: Routes = [
        route("web", &[], json!({ "kind": "MeshService", "name": "web" })),
        route("other", &[], json!({ "kind": "MeshService", "name": "other" })),
        route("synced-x2", &[("kuma.io/display-name", "synced")], json!(null)),
        route("west", &[("kuma.io/origin", "zone"), ("kuma.io/zone", "west")], json!(null)),
        route("circle", &[], json!({ "kind": "MeshHTTPRoute", "name": "circle" })),
    ]
    .into_iter()
    .collect();
    let unable = |fault: &str| {
        Some(format!("unable to resolve TargetRef on policy: mesh:default name:policy error:\"{fault}\""))
    };
    for (target, inbounds, warning) in [
        (json!({ "kind": "MeshHTTPRoute", "name": "web" }), &[0][..], None),
        (json!({ "kind": "MeshHTTPRoute", "name": "other" }), &[], None),
        (json!({ "kind": "MeshHTTPRoute", "name": "synced" }), &[0, 1], None),
        (json!({ "kind": "MeshHTTPRoute", "name": "west" }), &[], None),
        (
            json!({ "kind": "MeshHTTPRoute", "name": "synced-x2" }),
            &[],
            unable("couldn't resolve MeshHTTPRoute targetRef with name 'synced-x2'"),
        ),
        (
            json!({ "kind": "MeshHTTPRoute", "name": "circle" }),
            &[],
            unable("unsupported targetRef kind 'MeshHTTPRoute'"),
        ),
        (json!({ "kind": "Nonsense" }), &[], unable("unsupported targetRef kind 'Nonsense'")),
        (json!({ "kind": "MeshExternalService" }), &[], unable("unsupported targetRef kind 'MeshExternalService'")),
    ] {
        let context = SelectionContext { gateway: None, routes: Some(&routes) };
        let found = selected_in(context, &[], &target, &sidecar(), Shadow::Ignored);
        assert_eq!((&found.inbounds[..], found.warning), (inbounds, warning), "{target}");
    }
}

/// In ascending precedence.
#[test]
fn specificity_origin_and_name_decide_in_this_order() {
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
    let parts: Vec<Parts<'_>> =
        ordered.iter().map(|(name, pairs, target)| (*name, labels(pairs), target.clone())).collect();
    for (n, a) in parts.iter().enumerate() {
        for (m, b) in parts.iter().enumerate() {
            assert_eq!(compare(a, b), n.cmp(&m), "{:?} and {:?}", ordered[n], ordered[m]);
        }
    }
}

type Parts<'a> = (&'a str, Labels, Value);

fn compare(a: &Parts<'_>, b: &Parts<'_>) -> Ordering {
    let [a, b] = [a, b].map(|(name, labels, target)| policy(&TIMEOUT, name, labels.clone(), target));
    precedence(&a, &b)
}

/// Few values each, so that ties are common.
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
        Value::Object(fields.map(|(key, value)| (key.to_owned(), json!(value))).collect())
    });
    let labels = subsequence(LABELS, 0..=LABELS.len()).prop_map(|pairs| labels(&pairs));
    (one_of(&["a", "b", "c"]), labels, prop_oneof![Just(Value::Null), target])
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn order_is_total(a in policies(), b in policies(), c in policies()) {
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
