//! Each reason, and when it is given.

use jiff::Timestamp;
use kodiak_policies::otlp_backends::OtlpBackend;

use super::*;

#[test]
fn policy_that_takes_effect_everywhere_is_in_force() {
    let mut world = World::new();
    let all = world.add(&TIMEOUT, "all", &json!({ "to": everywhere("a", 1) }));
    let web = world.add(&TIMEOUT, "web", &json!({ "targetRef": dataplane("web"), "from": everywhere("a", 1) }));
    let trace = world.add(&TRACE, "trace", &json!({ "default": {} }));
    for (policy, proxies) in [(&all, 2), (&web, 1), (&trace, 2)] {
        assert_eq!(shown(&world.status(policy)), (State::InForce, proxies, vec![]), "{}", policy.name);
    }
    assert_eq!(world.status(&web).proxies_total, 2);
    assert_eq!(world.status(&web).kri, "kri_mt_default___web_");
}

#[test]
fn kind_that_is_not_implemented_is_not_in_force() {
    let mut world = World::new();
    let retry = world.add(&RETRY, "retry", &json!({ "to": everywhere("a", 1) }));
    assert_eq!(
        shown(&world.status(&retry)),
        (State::NotInForce, 0, vec!["NotSupportedYet all: not yet []".to_owned()])
    );
}

#[test]
fn permission_is_in_force_where_callers_have_certificates() {
    let mut world = World::new();
    let allow = json!([{ "targetRef": { "kind": "Mesh" }, "default": { "action": "Allow" } }]);
    let permission = world.add(&PERMISSION, "allow", &json!({ "from": allow }));
    let (state, proxies, reasons) = shown(&world.status(&permission));
    assert_eq!((state, proxies), (State::NotInForce, 0));
    assert!(
        reasons[0].starts_with("NoMutualTls all: inbounds accept plain text, so it is not enforced"),
        "{reasons:?}"
    );
    assert_eq!(reasons.len(), 1);
    let world = world.with_mtls();
    assert_eq!(shown(&world.status(&permission)), (State::InForce, 2, vec![]));
}

#[test]
fn items_for_some_callers_match_nobody_in_plain_text() {
    let mut world = World::new();
    let own = json!([{ "spiffeID": { "type": "Exact", "value": "spiffe://default/web" } }]);
    let by_tags = world.add(&FAULT, "tags", &json!({ "from": to_service("web", "a", 1) }));
    let matched = json!([{ "matches": own, "default": { "a": 1 } }]);
    let by_id = world.add(&FAULT, "id", &json!({ "targetRef": dataplane("db"), "rules": matched }));
    let rules = json!([{ "default": { "a": 1 } }, { "matches": own, "default": { "a": 2 } }]);
    let also = world.add(&FAULT, "also", &json!({ "targetRef": dataplane("db"), "rules": rules }));
    for (policy, state, proxies, path) in [
        (&by_tags, State::NotInForce, 0, "spec.from[0]"),
        (&by_id, State::NotInForce, 0, "spec.rules[0]"),
        (&also, State::Partly, 1, "spec.rules[1]"),
    ] {
        let status = world.status(policy);
        assert_eq!((status.state, status.proxies), (state, proxies), "{status:?}");
        let reasons: Vec<_> = status.reasons.iter().map(|reason| (reason.reason, reason.path.as_deref())).collect();
        assert!(reasons.contains(&(Why::NoMutualTls, Some(path))), "{status:?}");
    }
    let text = &world.status(&by_tags).reasons[0].message;
    assert!(text.starts_with("inbounds accept plain text, so callers are unknown"), "{text}");
    let world = world.with_mtls();
    for policy in [&by_id, &also] {
        assert_eq!(shown(&world.status(policy)), (State::InForce, 1, vec![]));
    }
}

#[test]
fn rules_for_all_callers_override_those_of_lower_precedence_when_the_kind_merges_them() {
    let mut world = World::new().with_mtls();
    let rules = json!([{ "default": { "a": 1 } }]);
    for (kind, overridden) in [(&TIMEOUT, true), (&FAULT, true), (&PERMISSION, false)] {
        let all = world.add(kind, "all", &json!({ "targetRef": dataplane("web"), "rules": rules }));
        let name = json!({ "kind": "Dataplane", "name": "web-1" });
        world.add(kind, "one", &json!({ "targetRef": name, "rules": [{ "default": { "a": 2 } }] }));
        assert_eq!(world.status(&all).state == State::NotInForce, overridden, "{}", kind.name);
    }
}

#[test]
fn passthrough_is_in_force_where_connections_are_redirected() {
    let mut world = World::new();
    let none = world.add(&PASSTHROUGH, "none", &json!({ "default": { "passthroughMode": "None" } }));
    assert_eq!(shown(&world.status(&none)), (State::InForce, 2, vec![]));
    world.not_redirected.insert("web-1".into());
    let (state, proxies, reasons) = shown(&world.status(&none));
    assert_eq!((state, proxies, reasons.len()), (State::Partly, 1, 1));
    let start = "UnsupportedProxyType all: on 1 of 2 proxies, outbound connections are not redirected to the proxy";
    assert!(reasons[0].starts_with(start), "{reasons:?}");
    world.not_redirected.insert("db-1".into());
    assert_eq!(world.status(&none).state, State::NotInForce);
}

#[test]
fn shadow_policy_is_not_in_force_and_overrides_nothing() {
    let mut world = World::new();
    let weak = world.add(&TIMEOUT, "b", &json!({ "to": everywhere("a", 1) }));
    let shadow = policy(&TIMEOUT, "a", &json!({ "kuma.io/effect": "shadow" }), &json!({ "to": everywhere("a", 2) }));
    world.put(&shadow);
    let status = world.status(&shadow);
    assert_eq!((status.state, status.reasons.len(), status.reasons[0].reason), (State::NotInForce, 1, Why::Shadow));
    assert_eq!(world.status(&weak).state, State::InForce);
}

#[test]
fn policy_without_proxies_has_a_description_of_its_target() {
    let world = World::new();
    for (target, expected) in [
        (json!({ "kind": "MeshSubset", "tags": { "version": "2" } }), "no proxy is tagged version=2"),
        (json!({ "kind": "MeshService", "name": "x" }), "no proxy is tagged kuma.io/service=x"),
        (
            json!({ "kind": "MeshServiceSubset", "name": "web", "tags": { "v": "2" } }),
            "no proxy is tagged kuma.io/service=web, v=2",
        ),
        (json!({ "kind": "Dataplane", "name": "web-9" }), "no proxy is called \"web-9\""),
        (
            json!({ "kind": "Dataplane", "labels": { "app": "web" }, "sectionName": "admin" }),
            "no proxy is labelled app=web with an inbound \"admin\"",
        ),
        (json!({ "kind": "Mesh", "proxyTypes": ["Gateway"] }), "no proxy is of the type Gateway"),
    ] {
        let policy = policy(&TIMEOUT, "p", &json!({}), &json!({ "targetRef": target, "to": everywhere("a", 1) }));
        let expected = vec![format!("NoMatch all: {expected} []")];
        assert_eq!(shown(&world.status(&policy)), (State::NotInForce, 0, expected), "{target}");
    }
    let owner = json!({ "kuma.io/policy-role": "workload-owner", "k8s.kuma.io/namespace": "shop" });
    let elsewhere = policy(&TIMEOUT, "p", &owner, &json!({ "to": everywhere("a", 1) }));
    let text = "NoMatch all: no proxy is in reach (the policy is of namespace \"shop\") []";
    assert_eq!(shown(&world.status(&elsewhere)).2, [text]);
    let text = "NoMatch all: mesh \"default\" has no proxies []";
    assert_eq!(shown(&World::default().status(&elsewhere)).2, [text]);
}

#[test]
fn unsupported_proxy_types_are_reported() {
    let mut world = World::default();
    world.proxy(
        "edge",
        &json!({}),
        &json!({ "gateway": { "type": "BUILTIN", "tags": { "kuma.io/service": "edge" } } }),
    );
    let all = world.add(&TIMEOUT, "all", &json!({ "to": everywhere("a", 1) }));
    let text = "UnsupportedProxyType all: it selects only builtin gateways, which are not configured yet []";
    assert_eq!(shown(&world.status(&all)), (State::NotInForce, 0, vec![text.to_owned()]));

    let mut world = World::default();
    world.proxy("client", &json!({}), &json!({ "inbound": [] }));
    let from = world.add(&TIMEOUT, "from", &json!({ "from": everywhere("a", 1) }));
    let text = "UnsupportedProxyType all: it applies to inbound requests, and the selected proxies have no inbounds []";
    assert_eq!(shown(&world.status(&from)), (State::NotInForce, 0, vec![text.to_owned()]));
}

#[test]
fn lower_precedence_is_overridden_field_by_field() {
    const DECIDED: &str = "Overridden all: policies of higher precedence override it [kri_mt_default___a_]";
    for (weak, strong, overridden) in [
        (json!({ "to": everywhere("x", 1) }), json!({ "to": everywhere("x", 2) }), true),
        // Of two that say the same, the stronger one counts.
        (json!({ "to": everywhere("x", 1) }), json!({ "to": everywhere("x", 1) }), true),
        (json!({ "to": everywhere("x", 1) }), json!({ "to": everywhere("y", 2) }), false),
        // What is said of everything is said of this one too.
        (json!({ "to": to_service("web", "x", 1) }), json!({ "to": everywhere("x", 2) }), true),
        (json!({ "to": to_service("web", "x", 1) }), json!({ "to": to_service("db", "x", 2) }), false),
        (json!({ "to": everywhere("x", 1) }), json!({ "to": to_service("db", "x", 2) }), false),
        (json!({ "from": everywhere("x", 1) }), json!({ "rules": [{ "default": { "x": 2 } }] }), true),
        (
            json!({ "rules": [{ "matches": [{}], "default": { "x": 1 } }] }),
            json!({ "from": everywhere("x", 2) }),
            false,
        ),
        (json!({ "from": everywhere("x", 1) }), json!({ "to": everywhere("x", 2) }), false),
    ] {
        let mut world = World::new();
        // Among equally strong policies, a narrow destination that is a resource is stronger than a broad one.
        let mut narrow = strong.clone();
        narrow["targetRef"] = json!({ "kind": "Dataplane" });
        let strong_one = world.add(&TIMEOUT, "a", &narrow);
        let weak_one = world.add(&TIMEOUT, "b", &weak);
        assert_eq!(world.status(&strong_one).state, State::InForce, "{strong}");
        let expected =
            if overridden { (State::NotInForce, 0, vec![DECIDED.to_owned()]) } else { (State::InForce, 2, vec![]) };
        assert_eq!(shown(&world.status(&weak_one)), expected, "{weak} {strong}");
    }
}

#[test]
fn overridden_by_names_only_policies_that_matter() {
    let mut world = World::new();
    for (name, field) in [("a", "z"), ("b", "x"), ("c", "y")] {
        world.add(&TRACE, name, &json!({ "default": { field: 1 } }));
    }
    let weak = world.add(&TRACE, "d", &json!({ "default": { "z": 2 } }));
    assert_eq!(world.status(&weak).reasons[0].policies, ["kri_mtr_default___a_"]);
}

#[test]
fn partly_overridden_policy_is_partly_in_force() {
    let mut world = World::new();
    let all = world.add(&TIMEOUT, "all", &json!({ "to": everywhere("a", 1), "from": everywhere("a", 1) }));
    world.add(
        &TIMEOUT,
        "web",
        &json!({ "targetRef": dataplane("web"), "to": everywhere("a", 2), "from": everywhere("a", 2) }),
    );
    let text = "Overridden all: on 1 of 2 proxies, policies of higher precedence override it [kri_mt_default___web_]";
    assert_eq!(shown(&world.status(&all)), (State::Partly, 1, vec![text.to_owned()]));
    world.add(&TIMEOUT, "db", &json!({ "targetRef": dataplane("db"), "to": everywhere("a", 2) }));
    let (state, proxies, reasons) = shown(&world.status(&all));
    assert_eq!((state, proxies, reasons.len()), (State::Partly, 1, 2), "{reasons:?}");
    let text =
        "Overridden spec.to: policies of higher precedence override it [kri_mt_default___db_ kri_mt_default___web_]";
    assert_eq!(reasons[1], text);
}

#[test]
fn from_is_ignored_where_another_policy_has_rules() {
    const IGNORED: &str = "`from` is ignored at inbounds where a policy has `rules`; use `rules`";
    let mut world = World::new();
    let from = world.add(&FAULT, "from", &json!({ "from": everywhere("a", 1) }));
    let rules = world.add(&FAULT, "rules", &json!({ "targetRef": dataplane("web"), "rules": [{ "default": {} }] }));
    let text = format!("Ignored spec.from: {IGNORED} [kri_mfi_default___rules_]");
    assert_eq!(shown(&world.status(&from)), (State::Partly, 1, vec![text.clone()]));
    assert_eq!(world.status(&rules).state, State::InForce);
    let web = world.add(&FAULT, "web", &json!({ "targetRef": dataplane("web"), "from": everywhere("a", 1) }));
    assert_eq!(shown(&world.status(&web)), (State::NotInForce, 0, vec![text.clone()]));
    // Its other parts do not suffer.
    let both = json!({ "targetRef": dataplane("web"), "from": everywhere("a", 1), "to": everywhere("a", 1) });
    let both = world.add(&FAULT, "web", &both);
    assert_eq!(shown(&world.status(&both)), (State::Partly, 1, vec![text]));
    // Where `from` is read as rules, both count, unless a policy has both.
    world.add(&TIMEOUT, "rules", &json!({ "rules": [{ "default": { "a": 1 } }] }));
    let from = world.add(&TIMEOUT, "from", &json!({ "from": everywhere("b", 1) }));
    assert_eq!(world.status(&from).state, State::InForce);
    let both =
        world.add(&TIMEOUT, "from", &json!({ "from": everywhere("b", 1), "rules": [{ "default": { "c": 1 } }] }));
    let text = format!("Ignored spec.from: {IGNORED} [kri_mt_default___from_]");
    assert_eq!(shown(&world.status(&both)), (State::Partly, 2, vec![text]));
}

#[test]
fn from_by_tags_does_not_match_callers_with_a_mesh_identity() {
    let mut world = World::new().with_mtls();
    world.proxy(
        "job-1",
        &json!({ "app": "job", "kuma.io/workload": "job" }),
        &json!({ "inbound": [{ "port": 80, "tags": { "kuma.io/service": "job", "env": "dev" } }] }),
    );
    let item = |target: Value| json!({ "targetRef": target, "default": { "a": 1 } });
    let by_tags = json!([
        item(json!({ "kind": "Mesh" })),
        item(json!({ "kind": "MeshService", "name": "web" })),
        item(json!({ "kind": "MeshService", "name": "job" })),
        item(json!({ "kind": "MeshSubset", "tags": { "kuma.io/service": "*", "env": "dev" } })),
    ]);
    let by_tags = world.add(&FAULT, "from", &json!({ "from": by_tags }));
    let as_rules = world.add(&TIMEOUT, "rules", &json!({ "from": everywhere("a", 1) }));
    let selector = json!({ "dataplane": { "matchLabels": { "app": "job" } } });
    let identity = |spec: Value| Identity {
        mesh: "default".into(),
        name: "jobs".into(),
        labels: Arc::default(),
        spec: Arc::new(serde_json::from_value(spec).unwrap()),
        ready: false,
        failed: false,
    };
    let announced = identity(json!({ "selector": selector }));
    let issuing = identity(json!({ "selector": selector, "provider": { "type": "Bundled" } }));
    for (identity, resolution, expected) in [
        (announced, NameResolution::Objects, vec![]),
        // Without MeshServices, a MeshIdentity issues nothing.
        (issuing.clone(), NameResolution::Both, vec![]),
        (issuing, NameResolution::Objects, vec!["spec.from[2]", "spec.from[3]"]),
    ] {
        world.identities = vec![identity];
        let status = of(&by_tags, PolicyStatusContext { resolution, ..world.context() });
        let paths: Vec<&str> = status.reasons.iter().filter_map(|reason| reason.path.as_deref()).collect();
        assert_eq!((paths, status.proxies), (expected, 3));
        assert_eq!(world.status(&as_rules).state, State::InForce, "`from` that is read as rules is not about tags");
    }
    let context = PolicyStatusContext { resolution: NameResolution::Objects, ..world.context() };
    let (state, _, reasons) = shown(&of(&by_tags, context));
    let text = "CallersWithoutTags spec.from[2]: Dataplane job-1 gets spiffe://default.default.mesh.local/workload/job and \
                no tags, so the item does not match it: convert it to rules (kodiak migrate identity convert) \
                [kri_mid_default___jobs_]";
    assert_eq!((state, reasons[0].as_str()), (State::Partly, text));
}

#[test]
fn missing_references_are_reported_with_their_path() {
    let mut world = World::new();
    for (target, missing) in [
        (json!({ "kind": "MeshService", "name": "web" }), None),
        (json!({ "kind": "MeshService", "labels": { "team": "web" } }), None),
        (json!({ "kind": "MeshService", "name": "web", "sectionName": "http" }), None),
        (json!({ "kind": "MeshService", "name": "x" }), Some("MeshService \"x\"")),
        (json!({ "kind": "MeshService", "labels": { "team": "x" } }), Some("MeshService labelled team=x")),
        (
            json!({ "kind": "MeshService", "name": "web", "sectionName": "grpc" }),
            Some("MeshService \"web\" with a port \"grpc\""),
        ),
        (json!({ "kind": "MeshExternalService", "name": "x" }), Some("MeshExternalService \"x\"")),
        (json!({ "kind": "MeshMultiZoneService", "labels": { "a": "b" } }), Some("MeshMultiZoneService labelled a=b")),
        (json!({ "kind": "MeshHTTPRoute", "name": "x" }), Some("MeshHTTPRoute \"x\"")),
    ] {
        let alone = json!({ "to": [{ "targetRef": target, "default": { "a": 1 } }] });
        let alone = world.add(&TIMEOUT, "p", &alone);
        let (state, proxies, reasons) = shown(&world.status(&alone));
        let Some(missing) = missing else {
            assert_eq!((state, proxies, reasons), (State::InForce, 2, vec![]), "{target}");
            continue;
        };
        let text = format!("Unresolved spec.to[0]: there is no {missing} []");
        assert_eq!((state, proxies, reasons), (State::NotInForce, 0, vec![text]), "{target}");
        if target["kind"] != "MeshHTTPRoute" {
            let beside = json!({ "to": [everywhere("b", 1)[0], { "targetRef": target, "default": { "a": 1 } }] });
            let beside = world.add(&TIMEOUT, "p", &beside);
            let text = format!("Unresolved spec.to[1]: there is no {missing} []");
            assert_eq!(shown(&world.status(&beside)), (State::Partly, 2, vec![text]), "{target}");
        }
    }
}

#[test]
fn routes_and_their_backends_must_exist() {
    let mut world = World::new();
    let follower = json!({ "targetRef": { "kind": "MeshHTTPRoute", "name": "route" }, "to": everywhere("a", 1) });
    let follower = world.add(&TIMEOUT, "follower", &follower);
    let text = "Unresolved spec.targetRef: there is no MeshHTTPRoute \"route\" []";
    assert_eq!(shown(&world.status(&follower)), (State::NotInForce, 0, vec![text.to_owned()]));
    let backends = |backends: Value| {
        let rule = json!({ "matches": [{ "path": { "type": "Exact", "value": "/" } }], "default": { "backendRefs": backends } });
        json!({ "to": [{ "targetRef": { "kind": "MeshService", "name": "web" }, "rules": [rule] }] })
    };
    let route = backends(json!([
        { "kind": "MeshService", "name": "db" },
        { "kind": "MeshService", "name": "x" },
        { "kind": "MeshService", "name": "db", "port": 80 },
        { "kind": "MeshService", "name": "db", "port": 81 },
        { "kind": "MeshService", "labels": { "team": "db" }, "port": 80 },
        { "kind": "MeshExternalService", "name": "far" },
    ]));
    let route = world.add(&ROUTE, "route", &route);
    let expected = [
        "Unresolved spec.to[0].backendRefs: the backend MeshService \"x\" does not exist []",
        "Unresolved spec.to[0].backendRefs: the backend MeshService \"db\" at port 81 does not exist []",
        "Unresolved spec.to[0].backendRefs: the backend MeshExternalService \"far\" does not exist []",
    ];
    assert_eq!(shown(&world.status(&route)), (State::Partly, 2, expected.map(str::to_owned).to_vec()));
    assert_eq!(shown(&world.status(&follower)), (State::InForce, 2, vec![]));
    let by_labels =
        json!({ "from": [{ "targetRef": { "kind": "MeshService", "labels": { "a": "b" } }, "default": {} }] });
    let by_labels = world.add(&FAULT, "by-labels", &by_labels);
    let text = "Unresolved spec.from[0]: callers are identified by their tags, not by labels of a service []";
    assert_eq!(shown(&world.status(&by_labels)), (State::NotInForce, 0, vec![text.to_owned()]));
}

#[test]
fn backend_without_a_port_does_not_exist_in_exclusive_mode() {
    let mut world = World::new();
    let backends =
        json!([{ "kind": "MeshService", "name": "db" }, { "kind": "MeshService", "name": "db", "port": 80 }]);
    let rule =
        json!({ "matches": [{ "path": { "type": "Exact", "value": "/" } }], "default": { "backendRefs": backends } });
    let route = json!({ "to": [{ "targetRef": { "kind": "MeshService", "name": "web" }, "rules": [rule] }] });
    let route = world.add(&ROUTE, "route", &route);
    assert_eq!(shown(&world.status(&route)), (State::InForce, 2, vec![]));
    let exclusive = of(&route, PolicyStatusContext { resolution: NameResolution::Objects, ..world.context() });
    let text = "Unresolved spec.to[0].backendRefs: the backend MeshService \"db\" without a port is a value of \
                kuma.io/service, which nobody calls in this mesh: write the port of the MeshService []";
    assert_eq!(shown(&exclusive), (State::Partly, 2, vec![text.to_owned()]));
}

#[test]
fn too_many_tags_are_reported_by_all_policies_that_use_them() {
    let mut world = World::new();
    let subset = |n: usize| json!({ "kind": "MeshSubset", "tags": { format!("key-{n}"): "x" } });
    let items: Vec<Value> = (0..20).map(|n| json!({ "targetRef": subset(n), "default": { "a": n } })).collect();
    let many = world.add(&TIMEOUT, "many", &json!({ "to": items }));
    let status = world.status(&many);
    assert_eq!((status.state, status.reasons.len()), (State::NotInForce, 1));
    assert_eq!((status.reasons[0].reason, status.reasons[0].path.as_deref()), (Why::TooMany, Some("spec.to")));
    assert!(status.reasons[0].message.contains("name fewer tags"), "{}", status.reasons[0].message);
}

#[test]
fn plain_name_in_a_route_is_a_tag_except_in_exclusive_mode() {
    let mut world = World::new();
    world.resource(&mesh_service::KIND, "new", &json!({}));
    world.service("old-1", "old_shop_svc_80");
    let matches = json!([{ "path": { "type": "Exact", "value": "/" } }]);
    let mut status = |target: Value, resolution: NameResolution| {
        let rule = json!({ "matches": matches, "default": { "n": 1 } });
        let route = world.add(&ROUTE, "route", &json!({ "to": [{ "targetRef": target, "rules": [rule] }] }));
        let (state, _, reasons) = shown(&of(&route, PolicyStatusContext { resolution, ..world.context() }));
        (state, reasons.into_iter().next())
    };
    let in_force = || (State::InForce, None);
    let not = |text: &str| (State::NotInForce, Some(format!("Unresolved spec.to[0]: MeshService {text} []")));
    let [new, old, web] = ["new", "old_shop_svc_80", "web"].map(|name| json!({ "kind": "MeshService", "name": name }));
    let port = json!({ "kind": "MeshService", "name": "new", "sectionName": "http" });
    for (target, both, objects) in [
        (
            new,
            not("\"new\" is an object, and without sectionName a value of kuma.io/service is meant: add it"),
            in_force(),
        ),
        (
            old,
            in_force(),
            not("\"old_shop_svc_80\" is a value of kuma.io/service, which nobody calls in this mesh: name the object"),
        ),
        (web, in_force(), in_force()),
        (port, in_force(), in_force()),
    ] {
        assert_eq!(status(target.clone(), NameResolution::Both), both, "{target}");
        assert_eq!(status(target.clone(), NameResolution::Objects), objects, "{target}");
    }
}

#[test]
fn targets_by_tag_have_no_effect_in_exclusive_mode() {
    let mut world = World::new();
    let rule = json!({ "matches": [{ "path": { "type": "Exact", "value": "/" } }], "default": {} });
    world.add(
        &ROUTE,
        "route",
        &json!({ "to": [{ "targetRef": { "kind": "MeshService", "name": "web" }, "rules": [rule] }] }),
    );
    let follower = json!({ "targetRef": { "kind": "MeshHTTPRoute", "name": "route" }, "to": everywhere("a", 1) });
    let follower = world.add(&TIMEOUT, "follower", &follower);
    let by_tags = json!({ "targetRef": { "kind": "MeshSubset", "tags": { "v": "1" } }, "default": { "a": 1 } });
    let by_tags = world.add(&TIMEOUT, "by-tags", &json!({ "to": [by_tags] }));
    let everything = world.add(&TIMEOUT, "everything", &json!({ "to": everywhere("b", 1) }));
    let state = |policy: &Arc<Policy>, resolution: NameResolution| {
        let status = of(policy, PolicyStatusContext { resolution, ..world.context() });
        (status.state, status.reasons.first().map(|reason| reason.reason))
    };
    for (policy, objects) in [
        (&follower, (State::NotInForce, Some(Why::Unresolved))),
        (&by_tags, (State::NotInForce, Some(Why::NoMatch))),
        (&everything, (State::InForce, None)),
    ] {
        assert_eq!(state(policy, NameResolution::Both), (State::InForce, None), "{}", policy.name);
        assert_eq!(state(policy, NameResolution::Objects), objects, "{}", policy.name);
    }
}

#[test]
fn legacy_name_is_overridden_by_a_target_of_the_object() {
    let mut world = World::new();
    let labels = json!({ "kuma.io/display-name": "shop", "k8s.kuma.io/namespace": "ns", "team": "shop" });
    world.resource(&mesh_service::KIND, "shop-1", &labels);
    let old = world.add(&TIMEOUT, "old", &json!({ "to": to_service("shop_ns_svc_80", "a", 1) }));
    assert_eq!(shown(&world.status(&old)), (State::InForce, 2, vec![]));
    let port = json!({ "kind": "MeshService", "labels": { "team": "shop" }, "sectionName": "http" });
    world.add(&TIMEOUT, "port", &json!({ "to": [{ "targetRef": port, "default": { "a": 2 } }] }));
    let text = "Overridden all: policies of higher precedence override it [kri_mt_default___port_]";
    assert_eq!(shown(&world.status(&old)), (State::NotInForce, 0, vec![text.to_owned()]));
}

#[test]
fn reference_to_a_missing_collector_is_reported_and_is_no_destination() {
    let mut world = World::new();
    let backends = |name: &str| {
        let reference = json!({ "kind": "MeshOpenTelemetryBackend", "name": name });
        json!({ "backends": [{ "type": "OpenTelemetry", "openTelemetry": { "backendRef": reference } }] })
    };
    let trace = world.add(&TRACE, "trace", &json!({ "default": backends("main") }));
    let text = |path: &str| {
        format!(
            "Unresolved {path}.backends[0].openTelemetry.backendRef: there is no MeshOpenTelemetryBackend \"main\": \
             nothing is sent to this backend []"
        )
    };
    assert_eq!(shown(&world.status(&trace)), (State::Partly, 2, vec![text("spec.default")]));
    let to = json!([{ "targetRef": { "kind": "Mesh" }, "default": backends("main") }]);
    let outbound = world.add(&FAULT, "to", &json!({ "to": to }));
    assert_eq!(shown(&world.status(&outbound)).2, [text("spec.to[0].default")]);
    let backend = OtlpBackend { labels: Arc::default(), created: Timestamp::UNIX_EPOCH, spec: Arc::default() };
    world.otlp_backends.set(&"main".into(), Some(Arc::new(backend)));
    for policy in [trace, outbound] {
        assert_eq!(shown(&world.status(&policy)), (State::InForce, 2, vec![]));
    }
}
