//! How many proxies there are, and what follows.

use kodiak_model::kinds::{dataplane_insight::DataplaneInsight, mesh_service::TlsReadiness};
use kodiak_rollout::{AppliedIdentity, Issuers};

use super::*;

#[test]
fn generated_service_is_complete_after_one_write_of_spec_and_status() {
    let mut kept = Kept::new();
    kept.serving("a", "web");
    kept.serving("b", "web");
    kept.dataplane("c", &serves(&[("web", 80)]));
    let written: Vec<bool> = kept.settle().iter().map(|wanted| matches!(wanted.write, Write::Put { .. })).collect();
    assert_eq!(written, [true, false]);
    let world = &kept.world;
    assert_eq!((world.counts("web"), world.is_available("web")), ([2, 2, 3], true));
    let identities = serde_json::to_value(&world.spec("web").identities).unwrap();
    assert_eq!(identities, json!([{ "type": "ServiceTag", "value": "web" }]));
    assert_eq!(
        kept.keeper.work(),
        Work { services_looked_at: 3, workloads_looked_at: 0, spec_writes: 1, status_writes: 1 }
    );
}

/// Whether a connected proxy with these inbounds is healthy for a service of these ports and selector.
fn is_healthy(selector: &Value, ports: &Value, inbounds: &Value) -> bool {
    let mut kept = Kept::new();
    kept.put_service("mine", &json!({}), &json!({ "selector": selector, "ports": ports }));
    kept.dataplane_with("a", inbounds, &json!({ "app": "a" }));
    kept.seen("a", ONLINE);
    kept.settle();
    let [connected, healthy, total] = kept.world.counts("mine");
    assert_eq!((connected, total), (1, 1), "{inbounds}");
    assert_eq!(kept.world.is_available("mine"), healthy > 0);
    healthy > 0
}

#[test]
fn proxy_is_healthy_when_all_selected_inbounds_are_ready() {
    let by_label = json!({ "dataplaneLabels": { "matchLabels": { "app": "a" } } });
    let by_tag = json!({ "dataplaneTags": { "app": "x" } });
    let ports = json!([{ "port": 80, "targetPort": 8080 }, { "port": 81, "targetPort": "admin" }]);
    let ready = json!({ "port": 8080, "tags": { "app": "x" } });
    let not = |port: u32, tags: Value| json!({ "port": port, "tags": tags, "state": "NotReady" });
    let sick = json!({ "port": 8080, "health": { "ready": false } });
    let ignored = json!({ "port": 8080, "tags": { "app": "x" }, "state": "Ignored" });
    let admin = json!({ "port": 9, "name": "admin", "state": "NotReady" });
    for (selector, inbounds, expected) in [
        (&by_label, json!([ready]), true),
        (&by_label, json!([not(8080, json!({}))]), false),
        (&by_label, json!([sick]), false),
        (&by_label, json!([ready, admin]), false),
        // Nobody calls it there.
        (&by_label, json!([ready, not(7000, json!({}))]), true),
        (&by_tag, json!([ready, not(7000, json!({}))]), true),
        // It is part of what the selector names.
        (&by_tag, json!([ready, not(7000, json!({ "app": "x" }))]), false),
        (&by_label, json!([ready, ignored]), true),
        // No port leads to it.
        (&by_label, json!([ignored]), false),
        (&by_label, json!([{ "port": 7000 }]), false),
        (&by_tag, json!([{ "port": 7000, "tags": { "app": "x" } }]), false),
    ] {
        assert_eq!(is_healthy(selector, &ports, &inbounds), expected, "{selector} {inbounds}");
    }
    for nowhere in [json!([{ "port": 8080 }]), json!([{ "port": 8080, "targetPort": "" }])] {
        assert!(!is_healthy(&by_label, &nowhere, &json!([ready])), "{nowhere}");
    }
}

#[test]
fn proxy_that_never_connected_is_not_counted_as_connected() {
    let mut kept = Kept::new();
    kept.dataplane("a", &serves(&[("web", 80)]));
    kept.seen("a", Seen::default());
    kept.settle();
    assert_eq!((kept.world.counts("web"), kept.world.is_available("web")), ([0, 0, 1], false));
}

#[test]
fn last_subscription_decides_whether_a_proxy_is_connected() {
    let seen = |insight: Value| Seen::of(&serde_json::from_value::<DataplaneInsight>(insight).unwrap());
    let closed =
        |end: i64| json!({ "id": "x", "connectTime": at(0).to_string(), "disconnectTime": at(end).to_string() });
    let open = json!({ "id": "y", "connectTime": at(9).to_string() });
    assert_eq!(seen(json!({})), Seen::default());
    assert_eq!(seen(json!({ "subscriptions": [closed(7), closed(5)] })), left(7));
    assert_eq!(seen(json!({ "subscriptions": [open, closed(7)] })), ONLINE);
    let certified = seen(json!({ "subscriptions": [open], "mTLS": { "issuedBackend": "ca-1" } }));
    assert_eq!(certified, Seen { certified: true, ..ONLINE });
    let unreadable = json!({ "id": "z", "connectTime": "then", "disconnectTime": "later" });
    assert_eq!(seen(json!({ "subscriptions": [unreadable] })), Seen::default());
}

#[test]
fn identities_are_tags_of_all_inbounds_and_spiffe_ids_of_mesh_identities() {
    let mut kept = Kept::new();
    let spiffe = |value: &str| json!({ "type": "SpiffeID", "value": value });
    let stale = spiffe("spiffe://demo/z");
    let old = json!({ "type": "ServiceTag", "value": "old" });
    let selector = json!({ "dataplaneLabels": { "matchLabels": { "app": "a" } } });
    kept.put_service("mine", &json!({}), &json!({ "selector": selector, "identities": [old, stale] }));
    kept.settle();
    let identities = |kept: &Kept| serde_json::to_value(&kept.world.spec("mine").identities).unwrap();
    assert_eq!(identities(&kept), json!([old, stale]), "without a proxy nobody is somebody else");
    kept.dataplane_with("a", &serves(&[("web", 80), ("admin", 81)]), &json!({ "app": "a", "kuma.io/workload": "no" }));
    kept.dataplane_with("b", &json!([{ "port": 80 }]), &json!({ "app": "a", "kuma.io/workload": "shop" }));
    kept.settle();
    let tag = |value: &str| json!({ "type": "ServiceTag", "value": value });
    assert_eq!(identities(&kept), json!([tag("admin"), tag("shop"), tag("web")]));
    let identity = AppliedIdentity { name: "all".into(), trust_domain: "demo".into(), ..AppliedIdentity::default() };
    let issuers = Issuers { identities: vec![identity.into()], ..Issuers::default() };
    let rollout = Rollout { other_issuers: Some(issuers), ..Rollout::default() };
    kept.mesh_at(MeshServicesMode::Exclusive, true, rollout);
    kept.settle();
    let ids = [spiffe("spiffe://demo/workload/no"), spiffe("spiffe://demo/workload/shop")];
    assert_eq!(identities(&kept), json!([tag("admin"), tag("shop"), tag("web"), ids[0], ids[1]]));
}

#[test]
fn tls_is_ready_when_all_proxies_have_certificates_and_stays_ready() {
    let mut kept = Kept::new();
    let ready = |kept: &mut Kept| {
        kept.settle();
        kept.world.status("web").tls.status.as_ref().is_some_and(|status| status.is(TlsReadiness::Ready))
    };
    let certified = Seen { certified: true, ..ONLINE };
    kept.dataplane("a", &serves(&[("web", 80)]));
    kept.dataplane("b", &serves(&[("web", 80)]));
    kept.seen("a", certified);
    kept.seen("b", ONLINE);
    kept.mesh(MeshServicesMode::Everywhere, true);
    assert!(!ready(&mut kept), "one has none");
    kept.gone("a");
    kept.gone("b");
    assert!(!ready(&mut kept), "nobody is not all");
    kept.dataplane("a", &serves(&[("web", 80)]));
    kept.seen("a", certified);
    assert!(ready(&mut kept));
    kept.serving("b", "web");
    assert!(ready(&mut kept), "a newcomer has none yet");
    kept.mesh(MeshServicesMode::Everywhere, false);
    assert!(!ready(&mut kept));
    kept.mesh(MeshServicesMode::Everywhere, true);
    assert!(!ready(&mut kept));
}

#[test]
fn services_of_other_zones_are_not_counted() {
    let mut kept = Kept::new();
    let spec = json!({
        "state": "Available", "selector": { "dataplaneTags": { "kuma.io/service": "web" } },
        "ports": [{ "port": 80, "targetPort": 80 }], "identities": [{ "type": "ServiceTag", "value": "far" }],
    });
    kept.put_service("web-x", &json!({ "kuma.io/origin": "global" }), &spec);
    kept.dataplane("a", &serves(&[("web", 80)]));
    kept.settle();
    assert_eq!(kept.world.counts("web"), [0, 0, 1]);
    assert_eq!(serde_json::to_value(kept.world.spec("web-x")).unwrap()["identities"], spec["identities"]);
    assert!(kept.world.is_available("web-x"));
    assert_eq!(kept.world.counts("web-x"), [0, 0, 0]);
    assert_eq!(kept.world.status("web-x").tls.status, None);
    assert_eq!(kept.world.status("web-x").vips.len(), 1);
    let looked = kept.keeper.work().services_looked_at;
    kept.seen("a", ONLINE);
    kept.settle();
    assert_eq!(kept.keeper.work().services_looked_at - looked, 2, "only `web`, and again when it was written");
}

#[test]
fn conflicts_are_reported_once() {
    let mut kept = Kept::new();
    kept.dataplane("a", &serves(&[("web", 80)]));
    kept.dataplane("b", &serves(&[("web", 81)]));
    let told = kept.keeper.due(at(0)).conflicts;
    assert_eq!(told, [Conflict { service: service("web"), dataplanes: vec![name("b")] }]);
    kept.seen("b", ONLINE);
    kept.keeper.again([service("web")]);
    assert_eq!(kept.keeper.due(at(0)).conflicts, []);
    kept.dataplane("b", &serves(&[("web", 80)]));
    assert_eq!(kept.keeper.due(at(0)).conflicts, []);
    kept.dataplane("b", &serves(&[("web", 81)]));
    assert_eq!(kept.keeper.due(at(0)).conflicts.len(), 1);
}
