//! Faults of single resources: everything else is published.

use kodiak_xds_stream::{Snapshot, TypeUrl};
use serde_json::{Value, json};

use super::{
    names, two_callers,
    world::{World, dataplane, inbound, key},
};
use crate::{EngineChange, Outcome, Updated, fallback::permissions, patched, redacted};

const MTLS: &str = r#"{ "mtls": { "enabledBackend": "ca", "backends": [{ "name": "ca", "type": "builtin" }] } }"#;
const PERMISSIVE: &str = r#"{ "mtls": { "enabledBackend": "ca", "backends": [{ "name": "ca", "type": "builtin", "mode": "PERMISSIVE" }] } }"#;
const INBOUND: &str = "inbound:10.0.0.1:80";

fn modify(world: &mut World, modifications: &Value) -> Outcome {
    let spec = json!({ "targetRef": { "kind": "Mesh" }, "default": { "appendModifications": modifications } });
    world.policy("MeshProxyPatch", "p", Some(&spec.to_string()))
}

fn timeout(seconds: u32) -> Value {
    json!({ "cluster": {
        "operation": "Patch", "match": { "name": "backend" }, "value": format!("connectTimeout: {seconds}s"),
    } })
}

/// Fails in every cluster that it selects.
fn failing(cluster: &str) -> Value {
    json!({ "cluster": {
        "operation": "Patch", "match": { "name": cluster }, "jsonPatches": [{ "op": "remove", "path": "/x" }],
    } })
}

/// One for each way in which modifications make a configuration invalid.
fn faulty_modifications() -> Vec<Value> {
    let listener = |origin: &str, address: &str, port: u32| {
        let value = format!("address: {{ socketAddress: {{ address: {address}, portValue: {port} }} }}");
        json!({ "listener": { "operation": "Patch", "match": { "origin": origin }, "value": value } })
    };
    let to_nowhere = "name: nowhere
domains: ['*']
routes: [{ match: { prefix: / }, route: { cluster: nowhere } }]";
    let router = "envoy.filters.http.router";
    let remove = |name: &str| json!({ "cluster": { "operation": "Remove", "match": { "name": name } } });
    vec![
        remove("backend"),
        remove("localhost:80"),
        failing("backend"),
        failing("localhost:80"),
        listener("inbound", "127.0.0.1", 10001),
        listener("outbound", "10.0.0.1", 80),
        json!({ "httpFilter": { "operation": "Remove", "match": { "origin": "inbound", "name": router } } }),
        json!({ "httpFilter": { "operation": "Remove", "match": { "origin": "outbound", "name": router } } }),
        json!({ "virtualHost": { "operation": "Patch", "match": { "origin": "inbound" }, "value": to_nowhere } }),
        json!({ "cluster": { "operation": "Add", "value": "{ name: extra, type: EDS, edsClusterConfig: { edsConfig: { ads: {} } } }" } }),
    ]
}

fn connect_timeout(world: &World, proxy: &str) -> Value {
    let shown = redacted::config(&world.snapshot(proxy)).unwrap();
    shown[TypeUrl::Cluster.as_str()]["backend"]["connectTimeout"].clone()
}

fn allow(world: &mut World, service: &str) {
    let from = json!([{ "targetRef": { "kind": "MeshService", "name": service }, "default": { "action": "Allow" } }]);
    world.permission("allow", Some(&json!({ "targetRef": { "kind": "Mesh" }, "from": from }).to_string()));
}

/// Whether the inbound listener admits whom it would admit without modifications.
fn has_current_permissions(world: &World) -> bool {
    let (unmodified, _) = world.rebuilt_without("MeshProxyPatch");
    let listener = |snapshot: &Snapshot| patched::listener(&snapshot.of(TypeUrl::Listener)[INBOUND]).unwrap();
    let expected = unmodified.snapshot(&key("web-1")).unwrap();
    permissions::are_equal(&listener(&world.snapshot("web-1")), &listener(&expected))
}

#[test]
fn certificates_endpoints_and_permissions_never_wait_for_a_fault() {
    let mut faulty = 0;
    for (n, modification) in faulty_modifications().into_iter().enumerate() {
        // Before the fault, after it, and in an engine that was started with it.
        for restarted in [false, true] {
            let mut world = two_callers();
            world.mesh(MTLS);
            allow(&mut world, "backend");
            let outcome = modify(&mut world, &json!([modification]));
            let is_faulty = |each: &&Updated| *each.key.name == *"web-1" && !each.faults.is_empty();
            faulty += outcome.proxies.iter().filter(is_faulty).count();
            if restarted {
                world.restart();
            }
            let before = world.snapshot("web-1");
            allow(&mut world, "other");
            world.dataplane("backend-2", dataplane("backend-2", &[inbound(8080, "backend", "http")], &[]));
            world.pass_hours(13);
            world.apply(EngineChange::Tick);
            let after = world.snapshot("web-1");
            for (type_url, name) in [
                (TypeUrl::Secret, "identity_cert:secret:default"),
                (TypeUrl::Endpoint, "backend"),
                (TypeUrl::Listener, INBOUND),
            ] {
                assert_ne!(before.of(type_url)[name], after.of(type_url)[name], "{name} with modification {n}");
            }
            assert!(has_current_permissions(&world), "modification {n}");
            assert!(after.of(TypeUrl::Listener).contains_key("outbound:127.0.0.1:10001"), "modification {n}");
            world.policy("MeshProxyPatch", "p", None);
            let (fresh, _) = world.rebuilt();
            assert_eq!(world.snapshot("web-1").resources, fresh.snapshot(&key("web-1")).unwrap().resources);
        }
    }
    assert_eq!(faulty, 2 * faulty_modifications().len(), "each is a fault");
}

#[test]
fn last_good_modifications_stay_with_the_current_resource() {
    let mut world = two_callers();
    modify(&mut world, &json!([timeout(12)]));
    // The first one is good, and not applied to this cluster without the second one.
    modify(&mut world, &json!([timeout(13), failing("backend")]));
    assert_eq!(connect_timeout(&world, "web-1"), "12s");
    // Other resources get the modifications that are fine.
    modify(&mut world, &json!([timeout(13), failing("localhost:80")]));
    assert_eq!(connect_timeout(&world, "web-1"), "13s");
    modify(&mut world, &json!([timeout(13), failing("backend")]));
    assert_eq!(connect_timeout(&world, "web-1"), "12s", "of the last configuration without any fault");
    world.policy("MeshTimeout", "t", None);
    // A stream that blinks loses nothing.
    world.disconnect("web-1");
    world.connect("web-1");
    assert_eq!(connect_timeout(&world, "web-1"), "12s");
    world.connect("web-1");
    assert_eq!(connect_timeout(&world, "web-1"), "12s", "a newer stream");
    // A new control plane knows only which modification is at fault.
    world.restart();
    assert_eq!(connect_timeout(&world, "web-1"), "13s");
    let outcome = modify(&mut world, &json!([timeout(14)]));
    assert!(outcome.proxies.iter().all(|each| each.faults.is_empty()));
    assert_eq!(connect_timeout(&world, "web-1"), "14s");
}

#[test]
fn reference_of_a_modification_may_arrive_later() {
    let mut world = two_callers();
    let before = world.snapshot("web-1");
    let route = "name: extra
domains: ['extra']
routes: [{ match: { prefix: / }, route: { cluster: late } }]";
    let route = json!({ "virtualHost": { "operation": "Add", "match": { "origin": "outbound" }, "value": route } });
    modify(&mut world, &json!([route]));
    assert_eq!(world.snapshot("web-1").resources, before.resources);
    let outcome = modify(&mut world, &json!([route, { "cluster": { "operation": "Add", "value": "name: late" } }]));
    assert!(outcome.proxies.iter().all(|each| each.faults.is_empty()));
    assert_ne!(world.snapshot("web-1").of(TypeUrl::Listener), before.of(TypeUrl::Listener));
    assert_eq!(names(&world, "web-1", TypeUrl::Cluster), ["backend", "late", "localhost:80"]);
    // Both stay when the cluster is taken away again: listener and cluster are of one configuration.
    let good = world.snapshot("web-1");
    modify(&mut world, &json!([route]));
    assert_eq!(world.snapshot("web-1").resources, good.resources);
}

#[test]
fn step_is_acknowledged_with_faults_that_are_not_about_it() {
    let mut world = two_callers();
    world.mesh(MTLS);
    modify(&mut world, &json!([failing("backend")]));
    let outcome = world.mesh(PERMISSIVE);
    let updated = outcome.proxies.iter().find(|each| *each.key.name == *"web-1").unwrap();
    assert!(!updated.faults.is_empty() && updated.rollout.contains("strict=allowed"), "{updated:?}");

    // Without a certificate of the step, it does not have the step.
    modify(&mut world, &json!([timeout(1)]));
    let secrets = world.snapshot("web-1").of(TypeUrl::Secret).clone();
    assert_eq!(secrets.len(), 2);
    let nameless = json!({ "networking": { "address": "10.0.0.1", "inbound": [{ "port": 80, "tags": {} }],
        "outbound": [{ "port": 10001, "tags": { "kuma.io/service": "backend" } }] } });
    world.dataplane("web-1", nameless.to_string());
    assert_eq!(*world.snapshot("web-1").of(TypeUrl::Secret), secrets, "the last certificate stays");
    let outcome = world.mesh(MTLS);
    let updated = outcome.proxies.iter().find(|each| *each.key.name == *"web-1").unwrap();
    assert!(updated.faults[0].contains("cannot issue a certificate"), "{:?}", updated.faults);
    assert!(updated.rollout.contains("strict=allowed"), "{}", updated.rollout);
    // A proxy that connects gets no certificate of the one before; what needs one is left out, and the rest is there.
    world.connect("web-1");
    assert_eq!(names(&world, "web-1", TypeUrl::Secret), [""; 0]);
    assert_eq!(names(&world, "web-1", TypeUrl::Cluster), ["localhost:80"]);
    assert_eq!(names(&world, "web-1", TypeUrl::Listener), [""; 0]);
    let connected = world.snapshot("web-1");
    world.restart();
    assert_eq!(world.snapshot("web-1").resources, connected.resources);
    world.dataplane("web-1", dataplane("web-1", &[inbound(80, "web", "http")], &[(10001, "backend")]));
    assert_eq!(names(&world, "web-1", TypeUrl::Listener), [INBOUND, "outbound:127.0.0.1:10001"]);
}
