//! References, old and new.

use proptest::prelude::*;

use super::*;
use crate::{Finding, Outcome};

/// Each finding in one line.
fn shown(findings: &[Finding]) -> Vec<String> {
    let one = |Finding { path, outcome, new, message, .. }: &Finding| {
        format!("{path} {outcome:?} [{}] {message}", new.join("; ")).trim_end().to_owned()
    };
    findings.iter().map(one).collect()
}

/// Findings of one reference, and the targets after the conversion.
#[track_caller]
fn check(world: &mut World, target: &Value, finding: &str, targets: &[Value]) {
    let converted = world.convert(&TIMEOUT, &json!({ "to": [item(target)] }), OldItems::Kept);
    assert_eq!(shown(&converted.findings), [format!("spec.to[0].targetRef {finding}")], "{target}");
    let all: Vec<&Value> = converted.spec["to"].as_array().unwrap().iter().map(|item| &item["targetRef"]).collect();
    let expected: Vec<&Value> = [target].into_iter().chain(targets).collect();
    assert_eq!(all, expected, "{target}");
    assert_eq!(converted.changed, !targets.is_empty());
    assert!(
        converted.spec["to"].as_array().unwrap().iter().all(|item| item["default"] == json!({ "idleTimeout": "5s" }))
    );
}

fn kubernetes(world: &mut World, name: &str, namespace: &str, zone: &str, ports: &Value) {
    let labels = json!({
        "kuma.io/display-name": name, "k8s.kuma.io/namespace": namespace, "kuma.io/zone": zone, "kuma.io/origin": "global",
    });
    let spec = json!({ "selector": { "dataplaneTags": { "app": name } }, "ports": ports });
    world.object(BackendKind::MeshService, &format!("{name}-{namespace}-{zone}"), labels, &spec);
}

fn everywhere() -> World {
    World::new(MeshServicesMode::Everywhere)
}

#[test]
fn kubernetes_name_is_converted_to_its_port_in_all_zones() {
    let mut world = everywhere();
    kubernetes(&mut world, "demo-app", "kuma-demo", "west", &json!([{ "port": 5000 }, { "port": 81 }]));
    let labels = json!({ "k8s.kuma.io/namespace": "kuma-demo", "kuma.io/display-name": "demo-app" });
    let port = |section: &str| json!({ "kind": "MeshService", "labels": labels, "sectionName": section });
    let shown = |section: &str| {
        format!("MeshService {{k8s.kuma.io/namespace=kuma-demo,kuma.io/display-name=demo-app}} port {section}")
    };
    let old = by_name("demo-app_kuma-demo_svc_5000");
    check(&mut world, &old, &format!("Converted [{}]", shown("5000")), &[port("5000")]);

    // Another zone calls the port by another name.
    kubernetes(&mut world, "demo-app", "kuma-demo", "north", &json!([{ "port": 5000, "name": "http" }]));
    check(
        &mut world,
        &old,
        &format!("Converted [{}; {}]", shown("5000"), shown("http")),
        &[port("5000"), port("http")],
    );

    // A workload without a Service has no port in its name.
    let whole = by_name("demo-app_kuma-demo_svc");
    let all = ["5000", "81", "http"];
    check(&mut world, &whole, &format!("Converted [{}]", all.map(shown).join("; ")), &all.map(port));
    let absent = "Unclear [] the MeshService \"demo-app\" has no port 82";
    check(&mut world, &by_name("demo-app_kuma-demo_svc_82"), absent, &[]);
    let elsewhere = "Unclear [] there is no MeshService \"demo-app\" in the namespace \"shop\"";
    check(&mut world, &by_name("demo-app_shop_svc_5000"), elsewhere, &[]);
}

#[test]
fn generated_service_is_referenced_by_label() {
    let mut world = everywhere();
    world.serves("web-1", "web");
    world.generated("web");
    let new = json!({ "kind": "MeshService", "labels": { "kuma.io/display-name": "web" }, "sectionName": "8080" });
    check(&mut world, &by_name("web"), "Converted [MeshService {kuma.io/display-name=web} port 8080]", &[new]);
}

#[test]
fn service_of_a_user_is_referenced_by_name() {
    let selector = json!({ "dataplaneTags": { "kuma.io/service": "web" } });
    let spec = json!({ "selector": selector, "ports": [{ "port": 80, "name": "http", "targetPort": 8080 }] });
    let mut world = everywhere();
    world.serves("web-1", "web");
    world.object(BackendKind::MeshService, "web", json!({ "kuma.io/zone": "east" }), &spec);
    let new = json!({ "kind": "MeshService", "name": "web", "sectionName": "http" });
    check(&mut world, &by_name("web"), "Converted [MeshService web port http]", &[new]);

    // A name means the zone of the policy alone.
    let mut world = everywhere();
    world.serves("web-1", "web");
    world.object(BackendKind::MeshService, "web", json!({ "kuma.io/zone": "west", "kuma.io/origin": "global" }), &spec);
    let why = "MeshService web was written without the label kuma.io/display-name: web, by which all zones could be meant; add it";
    check(&mut world, &by_name("web"), &format!("Unclear [] {why}"), &[]);
}

#[test]
fn ambiguous_references_are_not_converted() {
    let mut world = everywhere();
    world.serves("web-1", "web");
    let why = "there is no MeshService \"web\" yet";
    check(&mut world, &by_name("web"), &format!("Unclear [] {why}"), &[]);
    world.view.mode = MeshServicesMode::Disabled;
    let why = "there is no MeshService \"web\": none is made while meshServices.mode is Disabled";
    check(&mut world, &by_name("web"), &format!("Unclear [] {why}"), &[]);
    let why = "there is no MeshService \"api\", and nobody has kuma.io/service: api";
    check(&mut world, &by_name("api"), &format!("Unclear [] {why}"), &[]);
    world.serves("odd-1", "a.b");
    let why = "\"a.b\" cannot be the name of a MeshService, so none is made for it; write one that selects kuma.io/service: a.b";
    check(&mut world, &by_name("a.b"), &format!("Unclear [] {why}"), &[]);

    let mut world = everywhere();
    world.generated("web");
    let why = "nobody has kuma.io/service: web now, so nobody can tell whether the tag or the MeshService is meant; \
               write sectionName if it is the MeshService";
    check(&mut world, &by_name("web"), &format!("Unclear [] {why}"), &[]);

    let mut world = everywhere();
    world.serves("web-1", "web");
    for namespace in ["shop", "bank"] {
        kubernetes(&mut world, "web", namespace, "west", &json!([{ "port": 80 }]));
    }
    let why = "MeshServices of several namespaces have this name (bank, shop); write which one is meant with the label k8s.kuma.io/namespace";
    check(&mut world, &by_name("web"), &format!("Unclear [] {why}"), &[]);

    let tags = json!({ "kind": "MeshSubset", "tags": { "kuma.io/service": "web" } });
    let why = "tags do not choose among MeshServices; name them by labels of their own instead";
    check(&mut world, &tags, &format!("Unclear [] {why}"), &[]);
    let subset = json!({ "kind": "MeshServiceSubset", "name": "web", "tags": { "version": "1" } });
    let why = "no MeshService is a part of web; write one whose selector has these tags, and name it instead";
    check(&mut world, &subset, &format!("Unclear [] {why}"), &[]);
}

#[test]
fn service_with_another_selector_is_no_replacement() {
    let mut world = everywhere();
    for n in 1..=5 {
        world.serves(&format!("web-{n}"), "web");
    }
    world.serves("api-1", "api");
    let labels = json!({ "kuma.io/display-name": "web", "kuma.io/zone": "east" });
    let spec = json!({ "selector": { "dataplaneRef": { "name": "api-1" } }, "ports": [{ "port": 80 }] });
    world.object(BackendKind::MeshService, "web", labels, &spec);
    let why = "MeshService \"web\" selects other proxies than kuma.io/service: web does \
               (only the tag: web-1, web-2, web-3 and 2 more; only the MeshService: api-1)";
    check(&mut world, &by_name("web"), &format!("Unclear [] {why}"), &[]);
}

#[test]
fn proxies_of_other_zones_do_not_prevent_conversion() {
    let mut world = everywhere();
    world.serves("web-1", "web");
    world.serves_in("west", "web-2", "web");
    let labels = json!({ "kuma.io/display-name": "web", "kuma.io/zone": "east" });
    let spec = json!({ "selector": { "dataplaneRef": { "name": "web-1" } }, "ports": [{ "port": 80 }] });
    world.object(BackendKind::MeshService, "web", labels, &spec);
    let new = json!({ "kind": "MeshService", "labels": { "kuma.io/display-name": "web" }, "sectionName": "80" });
    check(&mut world, &by_name("web"), "Converted [MeshService {kuma.io/display-name=web} port 80]", &[new]);
}

#[test]
fn new_items_are_added_once_beside_legacy_ones() {
    let mut world = everywhere();
    world.serves("web-1", "web");
    world.generated("web");
    let others = [item(&json!({ "kind": "Mesh" })), item(&by_name("gone"))];
    let spec = json!({ "targetRef": by_name("web"), "from": [item(&by_name("web"))], "to": [others[0], item(&by_name("web")), others[1]] });
    let once = world.convert(&TIMEOUT, &spec, OldItems::Kept);
    let to = once.spec["to"].as_array().unwrap();
    assert_eq!((to.len(), &to[0], &to[3]), (4, &others[0], &others[1]));
    assert_eq!(
        (&once.spec["targetRef"], &once.spec["from"]),
        (&spec["targetRef"], &spec["from"]),
        "these are about proxies"
    );

    let twice = world.convert(&TIMEOUT, &once.spec, OldItems::Kept);
    assert!(!twice.changed && twice.spec == once.spec);
    let outcomes: Vec<Outcome> = twice.findings.iter().map(|finding| finding.outcome).collect();
    assert_eq!(outcomes, [Outcome::ConvertedBefore, Outcome::Unclear]);

    // What is not clear stays also when the rest is over.
    let replaced = world.convert(&TIMEOUT, &once.spec, OldItems::Dropped);
    assert_eq!(replaced.spec["to"], json!([to[0], to[2], to[3]]));
    let at_once = world.convert(&TIMEOUT, &spec, OldItems::Dropped);
    assert_eq!(at_once.spec, replaced.spec);
    let again = world.convert(&TIMEOUT, &replaced.spec, OldItems::Dropped);
    assert!(!again.changed);
}

#[test]
fn only_local_zone_of_load_balancing_is_converted() {
    let mut world = everywhere();
    world.serves("web-1", "web");
    world.generated("web");
    let local = json!({ "localityAwareness": { "localZone": { "affinityTags": [{ "key": "rack" }] } } });
    let mut both = local.clone();
    both["localityAwareness"]["crossZone"] = json!({ "failover": [] });
    both["loadBalancer"] = json!({ "type": "Random" });
    let rest = "a MeshService is called in its own zone, and a MeshMultiZoneService is what is called in all";
    for (conf, message) in
        [(&local, String::new()), (&both, format!("only localityAwareness.localZone is taken over; {rest}"))]
    {
        let spec = json!({ "to": [{ "targetRef": by_name("web"), "default": conf }] });
        let converted = world.convert(&BALANCING, &spec, OldItems::Kept);
        assert_eq!((&converted.spec["to"][1]["default"], &converted.findings[0].message), (&local, &message));
        assert_eq!(converted.spec["to"][0], spec["to"][0]);
    }
    let spec = json!({ "to": [{ "targetRef": by_name("web"), "default": { "loadBalancer": { "type": "Random" } } }] });
    let converted = world.convert(&BALANCING, &spec, OldItems::Dropped);
    assert!(!converted.changed && converted.findings[0].outcome == Outcome::Unclear);
    let why = format!("only localityAwareness.localZone holds for a MeshService, and it is not written; {rest}");
    assert_eq!(converted.findings[0].message, why);
}

#[test]
fn routes_are_reported_but_not_converted() {
    let mut world = everywhere();
    world.serves("web-1", "web");
    world.generated("web");
    let subset = json!({ "kind": "MeshServiceSubset", "name": "web", "tags": { "version": "1" }, "weight": 1 });
    let port = json!({ "kind": "MeshService", "name": "web", "port": 8080 });
    let mirror = json!({ "type": "RequestMirror", "requestMirror": { "backendRef": by_name("gone") } });
    let rules =
        json!([{ "matches": [], "default": { "filters": [mirror], "backendRefs": [subset, port, by_name("web")] } }]);
    let new = json!({ "kind": "MeshService", "name": "web", "sectionName": "8080" });
    let spec = json!({ "to": [{ "targetRef": by_name("web"), "rules": rules }, { "targetRef": new, "rules": [] }] });
    for old_items in [OldItems::Kept, OldItems::Dropped] {
        let examined = world.convert(&ROUTE, &spec, old_items);
        assert!(!examined.changed && examined.spec == spec);
        let found: Vec<(&str, &str, usize)> = examined
            .findings
            .iter()
            .map(|finding| (finding.path.as_str(), finding.reference.as_str(), finding.new.len()))
            .collect();
        let conf = "spec.to[0].rules[0].default";
        let expected = [
            ("spec.to[0].targetRef".to_owned(), "MeshService web", 1),
            (format!("{conf}.filters[0].requestMirror.backendRef"), "MeshService gone", 0),
            (format!("{conf}.backendRefs[0]"), "MeshServiceSubset web {version=1}", 0),
            (format!("{conf}.backendRefs[2]"), "MeshService web", 1),
        ];
        let expected: Vec<_> =
            expected.iter().map(|(path, reference, new)| (path.as_str(), *reference, *new)).collect();
        assert_eq!(found, expected);
        assert!(
            examined.findings.iter().all(|finding| finding.outcome == Outcome::Examine && !finding.message.is_empty())
        );
    }
}

/// Old and new references to what is there, and to what is not.
fn some_target() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(json!({ "kind": "Mesh" })),
        Just(by_name("web")),
        Just(by_name("gone")),
        Just(by_name("demo-app_kuma-demo_svc_5000")),
        Just(json!({ "kind": "MeshService", "labels": { "kuma.io/display-name": "web" }, "sectionName": "8080" })),
        Just(json!({ "kind": "MeshSubset", "tags": { "kuma.io/service": "web" } })),
    ]
}

proptest! {
    #[test]
    fn converting_again_changes_nothing_and_dropping_later_is_dropping_at_once(
        targets in proptest::collection::vec(some_target(), 0..6)
    ) {
        let mut world = everywhere();
        world.serves("web-1", "web");
        world.generated("web");
        kubernetes(&mut world, "demo-app", "kuma-demo", "west", &json!([{ "port": 5000 }]));
        let items: Vec<Value> = (1..).zip(&targets).map(|(n, target)| json!({ "targetRef": target, "default": n })).collect();
        let spec = json!({ "to": items });
        let once = world.convert(&TIMEOUT, &spec, OldItems::Kept);
        let twice = world.convert(&TIMEOUT, &once.spec, OldItems::Kept);
        prop_assert!(!twice.changed);
        prop_assert_eq!(&twice.spec, &once.spec);
        // What was there is there, in its order.
        let mut converted = once.spec["to"].as_array().unwrap().iter();
        prop_assert!(items.iter().all(|item| converted.any(|other| other == item)));
        let at_once = world.convert(&TIMEOUT, &spec, OldItems::Dropped).spec;
        prop_assert_eq!(world.convert(&TIMEOUT, &once.spec, OldItems::Dropped).spec, at_once.clone());
        prop_assert!(!world.convert(&TIMEOUT, &at_once, OldItems::Dropped).changed);
    }
}
