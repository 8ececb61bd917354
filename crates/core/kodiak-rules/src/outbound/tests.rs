//! Tables of targets of `to` items, and of inheritance from the mesh to ports.

mod property;

use std::collections::BTreeSet;

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
fn item_resolves_to_resources() {
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
        // A name is resolved in the zone of the policy.
        (&[], web(json!({})), &[]),
        (east, web(json!({})), &["kri_msvc_default_east_shop_web_"]),
        (east, json!({ "kind": "MeshService", "name": "plain" }), &[]),
        (other, web(json!({})), &[]),
        (other, web(json!({ "namespace": "shop" })), &["kri_msvc_default_east_shop_web_"]),
        (east, web(json!({ "sectionName": "http" })), &["kri_msvc_default_east_shop_web_http"]),
        (east, web(json!({ "sectionName": "90" })), &["kri_msvc_default_east_shop_web_90"]),
        // The number of a named port is not its name.
        (east, web(json!({ "sectionName": "80" })), &[]),
        // Labels match resources in all zones.
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
        // So do legacy names.
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
fn port_inherits_from_its_resource_and_the_mesh_never_the_reverse() {
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
fn destination_precedes_the_policy_name_and_follows_its_target() {
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
fn legacy_names_exclude_routes_and_limit_other_kinds() {
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
fn plain_name_limits_a_policy_until_only_objects_are_left() {
    let conf = json!({ "a": { "b": { "n": 1 }, "c": 2 }, "d": 3 });
    let limited = json!({ "a": { "b": { "n": 1 } } });
    let named = json!({ "kind": "MeshService", "name": "plain" });
    // A namespace alone does not make it a reference to the object.
    let in_namespace = json!({ "kind": "MeshService", "name": "plain", "namespace": "" });
    let port = json!({ "kind": "MeshService", "name": "plain", "sectionName": "http" });
    for (target, resolution, expected) in [
        (&named, NameResolution::Both, &limited),
        (&in_namespace, NameResolution::Both, &limited),
        (&named, NameResolution::Objects, &conf),
        (&port, NameResolution::Both, &conf),
    ] {
        let policies = [policy(&BALANCING, "p", &json!({ "to": [item(target, &conf)] }))];
        let rules = Asked::new(&policies, resolution).rules(&resources());
        assert_eq!(rules.len(), 1, "{target}");
        assert!(
            rules.values().all(|rule| rule.confs == [Conf::new(expected.clone())]),
            "{target}: {:?}",
            shown(&rules)
        );
    }
}

#[test]
fn policies_target_routes_by_name_and_routes_their_destination() {
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

    // A policy with a route as its top-level target does not apply to resources.
    let with_top = json!({ "targetRef": target, "to": [item(&json!({ "kind": "Mesh" }), &json!({}))] });
    assert!(rules(&[policy(&TIMEOUT, "p", &with_top)], &resources).is_empty());
}

#[test]
fn changed_labels_are_indexed() {
    let mut resources = resources();
    resources.insert(resource(&mesh_service::KIND, "plain", &[("team", "b")], &[]));
    let found = |team: &str| resources.by_labels("MeshService", "default", &labels(&[("team", team)])).len();
    assert_eq!((found("a"), found("b")), (2, 1));
    assert!(resources.by_labels("MeshService", "other", &labels(&[("team", "b")])).is_empty());
}

#[test]
fn plain_name_is_a_legacy_name_for_routes_until_only_objects_are_left() {
    let target = |fields: &[(&str, &str)]| -> Value {
        let kind = [("kind", "MeshService")];
        kind.iter().chain(fields).map(|(key, value)| ((*key).to_owned(), json!(value))).collect()
    };
    let plain = target(&[("name", "plain")]);
    let port = target(&[("name", "plain"), ("sectionName", "http")]);
    let labelled = json!({ "kind": "MeshService", "labels": { "team": "a" } });
    let external = json!({ "kind": "MeshExternalService", "name": "far" });
    let old = target(&[("name", "web_shop_svc_80")]);
    for (kind, target, both, objects) in [
        (&HTTP_ROUTE, &plain, 0, 1),
        (&TCP_ROUTE, &plain, 0, 1),
        (&HTTP_ROUTE, &port, 1, 1),
        (&HTTP_ROUTE, &labelled, 3, 3),
        (&HTTP_ROUTE, &external, 1, 1),
        (&HTTP_ROUTE, &old, 0, 0),
        (&TCP_ROUTE, &old, 0, 0),
        (&TIMEOUT, &plain, 1, 1),
        (&TIMEOUT, &old, 2, 2),
    ] {
        let spec = json!({ "to": [{ "targetRef": target, "rules": [{ "default": {} }], "default": {} }] });
        let policies = [policy(kind, "p", &spec)];
        let found = [NameResolution::Both, NameResolution::Objects]
            .map(|resolution| Asked::new(&policies, resolution).rules(&resources()).len());
        assert_eq!(found, [both, objects], "{} {target}", kind.name);
    }
}

#[test]
fn entries_by_legacy_name_are_marked() {
    let spec = json!({ "to": [
        item(&json!({ "kind": "Mesh" }), &json!({ "a": 1 })),
        item(&json!({ "kind": "MeshService", "name": "web_shop_svc_80" }), &json!({ "b": 1 })),
        item(&json!({ "kind": "MeshService", "labels": { "team": "a" }, "sectionName": "http" }), &json!({ "c": 1 })),
    ] });
    let asked = Asked::new(&[policy(&TIMEOUT, "p", &spec)], NameResolution::Both);
    let web = [("kuma.io/display-name", "web"), ("k8s.kuma.io/namespace", "shop"), ("team", "a")];
    let web = resource(&mesh_service::KIND, "web-east", &web, &[(80, "http"), (90, "")]);
    let names = |section: &str| -> Vec<Option<String>> {
        let rule = asked.about(&web, section).unwrap();
        rule.origins.iter().map(|entry| entry.legacy_name().map(str::to_owned)).collect()
    };
    assert_eq!(names("http"), [None, Some("web_shop_svc_80".to_owned()), None]);
    assert_eq!(names("90"), [None]);
}

#[test]
fn meant_by_lists_all_targets() {
    let of = |kind, targets: &[Value]| {
        let items: Vec<Value> = targets.iter().map(|target| item(target, &json!({}))).collect();
        targets_of(&labelled(kind, "p", &[("kuma.io/zone", "east")], &json!({ "to": items })))
    };
    let nothing = PolicyTargets::Some { named: BTreeSet::new(), old: BTreeSet::new(), labels: Vec::new() };
    let plain = json!({ "kind": "MeshService", "name": "plain", "sectionName": "http" });
    let old = json!({ "kind": "MeshService", "name": "web_shop_svc_80" });
    let team = json!({ "kind": "MeshMultiZoneService", "labels": { "team": "a" } });
    for all in [json!({ "kind": "Mesh" }), json!({ "kind": "MeshHTTPRoute", "name": "r" }), json!({ "kind": "New" })] {
        assert_eq!(of(&TIMEOUT, &[plain.clone(), all.clone()]), PolicyTargets::All, "{all}");
    }
    let kri = Kri::of(&mesh_service::KIND, "default", "plain", &labels(&[("kuma.io/zone", "east")])).unwrap();
    let expected = PolicyTargets::Some {
        named: [kri].into(),
        old: [("web".to_owned(), "shop".to_owned())].into(),
        labels: vec![("MeshMultiZoneService", labels(&[("team", "a")]))],
    };
    assert_eq!(of(&TIMEOUT, &[plain, old.clone(), team, json!({ "kind": "MeshSubset" })]), expected);
    assert_eq!(of(&TCP_ROUTE, &[old]), nothing);
    let top = json!({ "targetRef": { "kind": "MeshHTTPRoute", "name": "r" }, "to": [item(&json!({ "kind": "Mesh" }), &json!({}))] });
    assert_eq!(targets_of(&policy(&TIMEOUT, "p", &top)), nothing);
}
