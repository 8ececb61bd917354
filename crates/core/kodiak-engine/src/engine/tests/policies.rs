//! Created, changed and deleted policies: they rebuild only the resources that they select.

use kodiak_xds_stream::TypeUrl;
use serde_json::{Value, json};

use super::{
    names, two_callers,
    world::{World, dataplane, inbound},
};
use crate::{Stats, redacted};

/// A mesh of ten services with twenty redirected clients.
fn many() -> World {
    let mut world = World::default();
    world.mesh("{}");
    for n in 0..10 {
        let name = format!("service-{n}");
        world.dataplane(&name, dataplane(&name, &[inbound(80, &name, "http")], &[]));
    }
    for n in 0..20 {
        world.redirected(&format!("front-{n}"), &[]);
    }
    world.assign_vips();
    world
}

fn timeout(target: &Value, to: &Value, seconds: u32) -> String {
    let conf =
        json!({ "connectionTimeout": format!("{seconds}s"), "http": { "requestTimeout": format!("{seconds}s") } });
    json!({ "targetRef": target, "to": [{ "targetRef": to, "default": conf }] }).to_string()
}

fn service(name: &str) -> Value {
    json!({ "kind": "MeshService", "name": name })
}

fn at(world: &World, proxy: &str, path: &str) -> Value {
    redacted::config(&world.snapshot(proxy)).unwrap().pointer(path).cloned().unwrap_or(Value::Null)
}

const CLUSTERS: &str = "/type.googleapis.com~1envoy.config.cluster.v3.Cluster";

#[test]
fn policy_rebuilds_only_the_destinations_that_it_selects() {
    let mut world = many();
    let mesh = json!({ "kind": "Mesh" });
    // One cluster and one listener, which all clients share.
    let put = world.policy("MeshTimeout", "t", Some(&timeout(&mesh, &service("service-3"), 2)));
    assert_eq!(put.stats, Stats { encoded: 2, woken: 20 });
    assert_eq!(at(&world, "front-7", &format!("{CLUSTERS}/service-3/connectTimeout")), "2s");
    assert_eq!(at(&world, "front-7", &format!("{CLUSTERS}/service-4/connectTimeout")), "5s");
    let changed = world.policy("MeshTimeout", "t", Some(&timeout(&mesh, &service("service-3"), 3)));
    assert_eq!(changed.stats, Stats { encoded: 2, woken: 20 });
    let moved = world.policy("MeshTimeout", "t", Some(&timeout(&mesh, &service("service-4"), 3)));
    assert_eq!(moved.stats.woken, 20);
    assert!(moved.stats.encoded <= 4, "{:?}", moved.stats);
    assert_eq!(at(&world, "front-7", &format!("{CLUSTERS}/service-3/connectTimeout")), "5s");
    let nobody = world.policy("MeshTimeout", "u", Some(&timeout(&mesh, &service("nobody"), 3)));
    assert_eq!(nobody.stats, Stats::default());
}

#[test]
fn policy_updates_only_the_proxies_that_it_selects() {
    let mut world = many();
    let one = json!({ "kind": "Dataplane", "name": "front-7" });
    let put = world.policy("MeshTimeout", "t", Some(&timeout(&one, &json!({ "kind": "Mesh" }), 2)));
    assert_eq!(put.stats.woken, 1);
    assert_eq!(at(&world, "front-7", &format!("{CLUSTERS}/service-3/connectTimeout")), "2s");
    assert_eq!(at(&world, "front-8", &format!("{CLUSTERS}/service-3/connectTimeout")), "5s");
    let gone = world.policy("MeshTimeout", "t", None);
    assert_eq!((gone.stats.encoded, gone.stats.woken), (0, 1), "resources of the other proxies are cached");
}

fn mtls(mode: &str) -> String {
    let backend = json!({ "name": "ca", "type": "builtin", "mode": mode });
    json!({ "mtls": { "enabledBackend": "ca", "backends": [backend] } }).to_string()
}

/// MeshTLS for the proxies that `target` selects.
fn tls(target: &Value, conf: &Value) -> String {
    json!({ "targetRef": target, "rules": [{ "default": conf }] }).to_string()
}

/// Number of filter chains of the inbound of a client of [`many`]: 1 when strict, 3 when permissive.
fn inbound_chains(world: &World, proxy: &str) -> usize {
    let path = "/type.googleapis.com~1envoy.config.listener.v3.Listener/inbound:10.0.0.7:80/filterChains";
    at(world, proxy, path).as_array().unwrap().len()
}

#[test]
fn tls_mode_updates_only_the_proxies_that_it_selects() {
    for (mesh, mode, [before, after]) in [("STRICT", "Permissive", [1, 3]), ("PERMISSIVE", "Strict", [3, 1])] {
        let mut world = many();
        world.mesh(&mtls(mesh));
        let one = json!({ "kind": "Dataplane", "name": "front-7" });
        let put = world.policy("MeshTLS", "t", Some(&tls(&one, &json!({ "mode": mode }))));
        assert_eq!(put.stats.woken, 1);
        assert_eq!((inbound_chains(&world, "front-7"), inbound_chains(&world, "front-8")), (after, before));
        let gone = world.policy("MeshTLS", "t", None);
        assert_eq!(gone.stats.woken, 1);
        assert_eq!(inbound_chains(&world, "front-7"), before);
        let same = world.policy("MeshTLS", "t", Some(&tls(&one, &json!({ "mode": mesh_mode(mesh) }))));
        assert_eq!((same.stats.woken, same.stats.encoded), (0, 0), "the proxies have this mode already");
    }
}

fn mesh_mode(backend: &str) -> &'static str {
    if backend == "STRICT" { "Strict" } else { "Permissive" }
}

#[test]
fn strict_mode_waits_for_the_rollout() {
    let mut world = many();
    world.policy("MeshTLS", "t", Some(&tls(&json!({ "kind": "Mesh" }), &json!({ "mode": "Strict" }))));
    world.rollout(Some(kodiak_rollout::Rollout::default()));
    world.mesh(&mtls("PERMISSIVE"));
    let mut chains = vec![inbound_chains(&world, "front-7")];
    while let Some(next) = world.next_rollout() {
        world.rollout(Some(next));
        chains.push(inbound_chains(&world, "front-7"));
    }
    assert_eq!(chains, [1, 3, 3, 1], "plain text, both, clients use mTLS, strict");
    world.mesh("{}");
    let mut chains = Vec::new();
    while let Some(next) = world.next_rollout() {
        world.rollout(Some(next));
        chains.push(inbound_chains(&world, "front-7"));
    }
    assert_eq!(chains, [3, 3, 1], "both, clients use plain text, plain text");
}

#[test]
fn tls_versions_apply_to_the_calls_of_the_selected_proxies() {
    let mut world = many();
    world.mesh(&mtls("STRICT"));
    let minimum = |proxy: &str, world: &World| {
        let tls = "transportSocket/typedConfig/commonTlsContext/tlsParams/tlsMinimumProtocolVersion";
        at(world, proxy, &format!("{CLUSTERS}/service-3/{tls}"))
    };
    let versions = tls(&json!({ "kind": "Mesh" }), &json!({ "tlsVersion": { "min": "TLS13" } }));
    let put = world.policy("MeshTLS", "t", Some(&versions));
    assert_eq!(put.stats.woken, 20);
    assert_eq!((minimum("front-7", &world), minimum("front-8", &world)), (json!("TLSv1_3"), json!("TLSv1_3")));
    assert_eq!(world.policy("MeshTLS", "t", None).stats.woken, 20);
    assert_eq!(minimum("front-7", &world), Value::Null);
}

#[test]
fn passthrough_policy_wakes_only_the_proxies_that_it_selects() {
    let mut world = many();
    let matched = |port: u16| {
        let matched = json!({ "type": "Domain", "value": "example.com", "port": port, "protocol": "tls" });
        json!({ "targetRef": { "kind": "Dataplane", "name": "front-7" }, "default": { "appendMatch": [matched] } })
    };
    let through = |world: &World| {
        let all = names(world, "front-7", TypeUrl::Cluster).into_iter();
        all.filter(|name| name.starts_with("meshpassthrough") || name.starts_with("outbound")).collect::<Vec<_>>()
    };
    let before = through(&world);
    assert_eq!(before, ["outbound:passthrough:ipv4", "outbound:passthrough:ipv6"]);
    let put = world.policy("MeshPassthrough", "p", Some(&matched(443).to_string()));
    // Two listeners and the inbound cluster of each IP family, the cluster without endpoints, and that of the match.
    assert_eq!(put.stats, Stats { encoded: 8, woken: 1 });
    assert_eq!(through(&world), ["meshpassthrough_tls_example.com_443"]);
    let other = world.snapshot("front-8");
    let changed = world.policy("MeshPassthrough", "p", Some(&matched(8443).to_string()));
    assert_eq!(changed.stats.woken, 1);
    assert_eq!(through(&world), ["meshpassthrough_tls_example.com_8443"]);
    // Proxies with equal rules share resources.
    let mut everybody = matched(8443);
    everybody["targetRef"] = json!({ "kind": "Mesh" });
    let all = world.policy("MeshPassthrough", "q", Some(&everybody.to_string()));
    assert_eq!(all.stats, Stats { encoded: 0, woken: 19 });
    assert_ne!(other.resources, world.snapshot("front-8").resources);
    world.policy("MeshPassthrough", "q", None);
    world.policy("MeshPassthrough", "p", None);
    assert_eq!(through(&world), before);
    assert_eq!(other.resources, world.snapshot("front-8").resources);
}

#[test]
fn policies_with_equal_configuration_share_resources() {
    let mut world = many();
    for n in [3, 4] {
        let target = json!({ "kind": "Dataplane", "name": format!("front-{n}") });
        world.policy("MeshTimeout", &format!("t-{n}"), Some(&timeout(&target, &service("service-3"), 2)));
    }
    let of = |proxy: &str| world.snapshot(proxy).of(TypeUrl::Cluster)["service-3"].clone();
    assert!(std::sync::Arc::ptr_eq(&of("front-3"), &of("front-4")));
    assert_ne!(of("front-3"), of("front-5"));
}

#[test]
fn clusters_of_route_backends_live_as_long_as_the_route() {
    let mut world = two_callers();
    world.dataplane("v2-1", dataplane("v2-1", &[inbound(8080, "backend-v2", "http")], &[]));
    let rule = json!({
        "matches": [{ "path": { "type": "PathPrefix", "value": "/" } }],
        "default": { "backendRefs": [
            { "kind": "MeshService", "name": "backend", "weight": 90 },
            { "kind": "MeshService", "name": "backend-v2", "weight": 10 },
        ] },
    });
    let to = json!({ "targetRef": service("backend"), "rules": [rule] });
    let route = json!({ "targetRef": { "kind": "MeshSubset", "tags": { "kuma.io/service": "web" } }, "to": [to] });
    world.policy("MeshHTTPRoute", "split", Some(&route.to_string()));
    assert_eq!(names(&world, "web-1", TypeUrl::Cluster), ["backend", "backend-v2", "localhost:80"]);
    assert_eq!(names(&world, "web-1", TypeUrl::Endpoint), ["backend", "backend-v2"]);
    assert_eq!(names(&world, "other", TypeUrl::Cluster), ["localhost:80", "web"]);
    // A backend that is no longer HTTP changes the listener of the destination that routes to it.
    let before = world.snapshot("web-1");
    world.dataplane("v2-1", dataplane("v2-1", &[inbound(8080, "backend-v2", "tcp")], &[]));
    assert_ne!(before.of(TypeUrl::Listener), world.snapshot("web-1").of(TypeUrl::Listener));
    world.policy("MeshHTTPRoute", "split", None);
    assert_eq!(names(&world, "web-1", TypeUrl::Cluster), ["backend", "localhost:80"]);
}

#[test]
fn clients_with_different_values_of_matched_tags_are_in_different_classes() {
    let mut world = World::default();
    world.mesh("{}");
    let tagged = |port, service, key: &str, value: &str| {
        let mut inbound = inbound(port, service, "http");
        inbound["tags"][key] = json!(value);
        inbound
    };
    for (name, rack) in [("web-1", "r1"), ("web-2", "r2"), ("web-3", "r1")] {
        world.dataplane(name, dataplane(name, &[tagged(80, "web", "rack", rack)], &[(10001, "backend")]));
        world.connect(name);
    }
    for (name, rack) in [("backend-1", "r1"), ("backend-2", "r2")] {
        world.dataplane(name, dataplane(name, &[tagged(8080, "backend", "rack", rack)], &[]));
    }
    let same = |one: &str, other: &str, world: &World| {
        let of = |proxy: &str| world.snapshot(proxy).of(TypeUrl::Endpoint)["backend"].clone();
        of(one) == of(other)
    };
    assert!(same("web-1", "web-2", &world));
    let conf = json!({ "localityAwareness": { "localZone": { "affinityTags": [{ "key": "rack" }] } } });
    let near = json!({ "to": [{ "targetRef": { "kind": "Mesh" }, "default": conf }] });
    world.policy("MeshLoadBalancingStrategy", "near", Some(&near.to_string()));
    assert!(!same("web-1", "web-2", &world));
    assert!(same("web-1", "web-3", &world));
}
