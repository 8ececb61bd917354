//! Tables of what items of `to` mean, and of what flows from the mesh into ports.

use kodiak_model::kinds::mesh_service;
use serde_json::{Value, json};

use super::*;
use crate::fixtures::{BALANCING, HTTP_ROUTE, TCP_ROUTE, TIMEOUT, labelled, labels, policy, resource, resources};

fn item(target: &Value, conf: &Value) -> Value {
    json!({ "targetRef": target, "default": conf })
}

/// KRI and conf.
fn shown(rules: &ResourceRules) -> Vec<(String, Value)> {
    let conf = |rule: &ResourceRule| rule.confs.iter().map(Conf::json).cloned().collect();
    rules.iter().map(|(kri, rule)| (kri.to_string(), conf(rule))).collect()
}

fn reached(pairs: &[(&str, &str)], target: &Value) -> Vec<String> {
    let policy = labelled(&TIMEOUT, "p", pairs, &json!({ "to": [item(target, &json!({}))] }));
    rules(&[policy], &resources()).keys().map(ToString::to_string).collect()
}

#[test]
fn an_item_means_resources() {
    let east: &[_] = &[("kuma.io/zone", "east"), ("k8s.kuma.io/namespace", "shop")];
    let other: &[_] = &[("kuma.io/zone", "east"), ("k8s.kuma.io/namespace", "other")];
    let web = |fields: Value| {
        let mut target = json!({ "kind": "MeshService", "name": "web" });
        target.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        target
    };
    for (policy, target, expected) in [
        (&[][..], json!({ "kind": "Mesh" }), &["kri_m____default_"][..]),
        (&[], json!({ "kind": "MeshService", "name": "plain" }), &["kri_msvc_default___plain_"]),
        (&[], json!({ "kind": "MeshService", "name": "nobody" }), &[]),
        // A name is looked for where the policy is from.
        (&[], web(json!({})), &[]),
        (east, web(json!({})), &["kri_msvc_default_east_shop_web_"]),
        (east, json!({ "kind": "MeshService", "name": "plain" }), &[]),
        (other, web(json!({})), &[]),
        (other, web(json!({ "namespace": "shop" })), &["kri_msvc_default_east_shop_web_"]),
        (east, web(json!({ "sectionName": "http" })), &["kri_msvc_default_east_shop_web_http"]),
        (east, web(json!({ "sectionName": "90" })), &["kri_msvc_default_east_shop_web_90"]),
        // The number of a port that has a name is not its name.
        (east, web(json!({ "sectionName": "80" })), &[]),
        // Labels mean everything that has them, wherever it is.
        (
            &[],
            json!({ "kind": "MeshService", "labels": { "team": "a", "kuma.io/display-name": "web" } }),
            &["kri_msvc_default_east_shop_web_", "kri_msvc_default_west_shop_web_"],
        ),
        (
            &[],
            json!({ "kind": "MeshService", "labels": { "team": "a" }, "sectionName": "90" }),
            &["kri_msvc_default_east_shop_web_90", "kri_msvc_default_west_shop_web_90"],
        ),
        (&[], json!({ "kind": "MeshService", "labels": { "team": "b" } }), &[]),
        // So do old names.
        (
            other,
            json!({ "kind": "MeshService", "name": "web_shop_svc_80" }),
            &["kri_msvc_default_east_shop_web_http", "kri_msvc_default_west_shop_web_http"],
        ),
        (
            &[],
            json!({ "kind": "MeshService", "name": "web_shop_svc" }),
            &["kri_msvc_default_east_shop_web_", "kri_msvc_default_west_shop_web_"],
        ),
        (&[], json!({ "kind": "MeshService", "name": "web_shop_svc_81" }), &[]),
        (&[], json!({ "kind": "MeshService", "name": "web_shop_svc_80", "sectionName": "http" }), &[]),
        (&[], json!({ "kind": "MeshExternalService", "name": "far" }), &["kri_extsvc_default___far_"]),
        (&[], json!({ "kind": "MeshSubset", "tags": { "team": "a" } }), &[]),
    ] {
        assert_eq!(reached(policy, &target), expected, "{policy:?} {target}");
    }
}

#[test]
fn a_port_hears_its_resource_and_the_mesh_and_never_the_other_way() {
    let service = json!({ "kind": "MeshService", "name": "plain" });
    let port = json!({ "kind": "MeshService", "name": "plain", "sectionName": "http" });
    let spec = json!({ "to": [
        item(&port, &json!({ "c": 3 })),
        item(&service, &json!({ "b": 2, "c": 2 })),
        item(&json!({ "kind": "Mesh" }), &json!({ "a": 1, "b": 1 })),
    ] });
    let rules = rules(&[policy(&TIMEOUT, "p", &spec)], &resources());
    let expected = [
        ("kri_m____default_".to_owned(), json!([{ "a": 1, "b": 1 }])),
        ("kri_msvc_default___plain_".to_owned(), json!([{ "a": 1, "b": 2, "c": 2 }])),
        ("kri_msvc_default___plain_http".to_owned(), json!([{ "a": 1, "b": 2, "c": 3 }])),
    ];
    assert_eq!(shown(&rules), expected);
    let of_port = rules.values().last().unwrap();
    assert_eq!(of_port.section, "http");
    assert_eq!(of_port.origins.iter().map(|entry| entry.index).collect::<Vec<_>>(), [2, 1, 0]);

    let plain = rules.keys().nth(1).unwrap();
    let section = |section: &str| Kri { section: section.to_owned(), ..plain.clone() };
    let other = Kri { name: "other".to_owned(), ..section("http") };
    for (destination, found) in [(section("http"), 2), (section("grpc"), 1), (other, 0)] {
        let rule = find(&rules, &destination).unwrap();
        assert_eq!(shown(&rules)[found].1, json!([rule.confs[0].json()]), "{destination}");
    }
    assert!(find(&rules, &Kri { mesh: "other".to_owned(), ..plain.clone() }).is_none());
}

#[test]
fn what_an_item_is_about_counts_more_than_the_name_of_its_policy_and_less_than_its_target() {
    let one = |name: &str, labels: &[(&str, &str)], top: &str, to: &Value| {
        let top = json!({ "kind": top, "tags": {} });
        labelled(&TIMEOUT, name, labels, &json!({ "targetRef": top, "to": [item(to, &json!({}))] }))
    };
    let (mesh, service) = (json!({ "kind": "Mesh" }), json!({ "kind": "MeshService", "name": "plain" }));
    let port = json!({ "kind": "MeshService", "name": "plain", "sectionName": "http" });
    let weakest_first = [
        one("6", &[("kuma.io/origin", "global")], "Mesh", &port),
        one("5", &[], "Mesh", &mesh),
        one("2", &[], "Mesh", &mesh),
        one("8", &[], "Mesh", &service),
        one("4", &[], "Mesh", &service),
        one("9", &[], "Mesh", &port),
        one("7", &[("kuma.io/policy-role", "producer")], "Mesh", &mesh),
        one("3", &[], "MeshSubset", &mesh),
    ];
    let names = |policies: &[Arc<Policy>]| -> String {
        entries(policies).iter().map(|entry| entry.policy.name.to_string()).collect()
    };
    assert_eq!(names(&weakest_first), "65284973");
    let mut backwards = weakest_first;
    backwards.reverse();
    assert_eq!(names(&backwards), "65284973");
}

#[test]
fn through_old_names_routes_say_nothing_and_others_as_much_as_their_kind_allows() {
    let old = json!({ "kind": "MeshService", "name": "web_shop_svc_80" });
    let confs = json!({ "rules": [{ "matches": [{}], "default": { "backendRefs": [] } }], "targetRef": old });
    for kind in [&HTTP_ROUTE, &TCP_ROUTE] {
        let rules = rules(&[policy(kind, "p", &json!({ "to": [confs] }))], &resources());
        assert!(rules.is_empty(), "{}: {:?}", kind.name, shown(&rules));
    }
    let said = |conf: Value| rules(&[policy(&BALANCING, "p", &json!({ "to": [item(&old, &conf)] }))], &resources());
    let rules = said(json!({ "a": { "b": { "n": 1 }, "c": 2 }, "d": 3 }));
    assert!(rules.values().all(|rule| rule.confs == [Conf::new(json!({ "a": { "b": { "n": 1 } } }))]));
    assert_eq!(rules.len(), 2);
    assert!(said(json!({ "a": { "c": 2 }, "d": 3 })).is_empty());
}

#[test]
fn policies_are_about_routes_by_name_and_routes_are_about_their_destination() {
    let rule = json!({ "matches": [{ "method": "GET" }], "default": {} });
    let service = json!({ "kind": "MeshService", "name": "plain" });
    let route = policy(&HTTP_ROUTE, "route", &json!({ "to": [{ "targetRef": service, "rules": [rule] }] }));
    let mut resources = resources();
    resources.insert_route(route.clone());
    let target = json!({ "kind": "MeshHTTPRoute", "name": "route" });
    let timeout = policy(&TIMEOUT, "p", &json!({ "to": [item(&target, &json!({ "n": 1 }))] }));
    let of_route = ("kri_mhttpr_default___route_".to_owned(), json!([{ "n": 1 }]));
    assert_eq!(shown(&rules(&[timeout], &resources)), [of_route]);

    let found = rules(&[route], &resources);
    assert_eq!(shown(&found), [("kri_msvc_default___plain_".to_owned(), json!([{ "rules": [rule] }]))]);
    let hash = crate::route_hash(&rule["matches"]);
    assert_eq!(found.values().next().unwrap().by_matches[&hash].index, 0);

    // With a route at the top, a policy is not about resources.
    let with_top = json!({ "targetRef": target, "to": [item(&json!({ "kind": "Mesh" }), &json!({}))] });
    assert!(rules(&[policy(&TIMEOUT, "p", &with_top)], &resources).is_empty());
}

#[test]
fn a_resource_that_changed_its_labels_is_found_by_the_new_ones() {
    let mut resources = resources();
    resources.insert(resource(&mesh_service::KIND, "plain", &[("team", "b")], &[]));
    let found = |team: &str| resources.by_labels("MeshService", "default", &labels(&[("team", team)])).len();
    assert_eq!((found("a"), found("b")), (2, 1));
    assert!(resources.by_labels("MeshService", "other", &labels(&[("team", "b")])).is_empty());
}
