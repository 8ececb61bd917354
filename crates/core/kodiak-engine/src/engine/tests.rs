//! Changes of a mesh: which proxies get which resources, and how many are encoded.

mod access_logs;
mod addresses;
mod dead_issuers;
mod encryption;
mod explained;
mod faults;
mod identity_trimming;
mod lists;
mod objects;
mod order;
mod patches;
mod policies;
mod reachability;
mod scratch;
mod traces;
mod trust;
mod world;

use std::sync::Arc;

use kodiak_xds_stream::TypeUrl;
use world::{World, dataplane, inbound};

use super::*;

fn names(world: &World, proxy: &str, type_url: TypeUrl) -> Vec<String> {
    let snapshot = world.snapshot(proxy);
    snapshot.of(type_url).keys().map(ToString::to_string).collect()
}

/// Two clients that list `backend`, one that does not, and one instance of `backend`.
fn two_callers() -> World {
    let mut world = World::default();
    world.mesh("{}");
    for name in ["web-1", "web-2"] {
        world.dataplane(name, dataplane(name, &[inbound(80, "web", "http")], &[(10001, "backend")]));
        world.connect(name);
    }
    world.dataplane("other", dataplane("other", &[inbound(80, "other", "tcp")], &[(10001, "web")]));
    world.connect("other");
    world.dataplane("backend-1", dataplane("backend-1", &[inbound(8080, "backend", "http")], &[]));
    world
}

#[test]
fn proxy_gets_only_its_inbounds_and_its_outbounds() {
    let world = two_callers();
    assert_eq!(names(&world, "web-1", TypeUrl::Cluster), ["backend", "localhost:80"]);
    assert_eq!(names(&world, "web-1", TypeUrl::Endpoint), ["backend"]);
    assert_eq!(names(&world, "web-1", TypeUrl::Listener), ["inbound:10.0.0.1:80", "outbound:127.0.0.1:10001"]);
    assert_eq!(names(&world, "other", TypeUrl::Cluster), ["localhost:80", "web"]);
}

#[test]
fn new_endpoint_is_encoded_once_and_updates_only_its_clients() {
    let mut world = two_callers();
    let before = world.snapshot("web-1");
    let outcome = world.dataplane("backend-2", dataplane("backend-2", &[inbound(8080, "backend", "http")], &[]));
    assert_eq!(outcome.stats, Stats { encoded: 1, woken: 2 });
    let after = world.snapshot("web-1");
    assert_ne!(before.of(TypeUrl::Endpoint), after.of(TypeUrl::Endpoint));
    assert_eq!(before.of(TypeUrl::Cluster), after.of(TypeUrl::Cluster));
    let shared = |proxy: &str| world.snapshot(proxy).of(TypeUrl::Endpoint)["backend"].clone();
    assert!(Arc::ptr_eq(&shared("web-1"), &shared("web-2")));
}

#[test]
fn rollout_and_virtual_addresses_may_come_before_their_mesh() {
    let mut world = World::default();
    world.mesh(r#"{ "mtls": { "enabledBackend": "ca", "backends": [{ "name": "ca", "type": "builtin" }] } }"#);
    world.rollout(world.next_rollout());
    world.redirected("front", &[]);
    world.assign_vips();
    let one_by_one = world.rebuilt_one_by_one();
    let (expected, rebuilt) = (world.snapshot("front"), one_by_one.snapshot(&world::key("front")).unwrap());
    for type_url in TypeUrl::ALL {
        assert_eq!(expected.of(type_url), rebuilt.of(type_url), "{type_url}");
    }
}

#[test]
fn mesh_without_documents_and_proxies_is_dropped() {
    let mut world = World::default();
    world.redirected("front", &[]);
    world.assign_vips();
    world.remove_dataplane("front");
    world.disconnect("front");
    assert_eq!(world.engine.meshes.len(), 1, "it has virtual addresses");
    world.apply(EngineChange::Vips { mesh: world::MESH.into(), vips: None });
    assert_eq!(world.engine.meshes.len(), 0);
}

#[test]
fn maps_of_unchanged_types_are_shared_between_snapshots() {
    let mut world = two_callers();
    world.redirected("front", &[]);
    world.assign_vips();
    for proxy in ["web-1", "front"] {
        let before = world.snapshot(proxy);
        let port = if proxy == "front" { 8082 } else { 8081 };
        world.dataplane("backend-2", dataplane("backend-2", &[inbound(port, "backend", "http")], &[]));
        let after = world.snapshot(proxy);
        assert_ne!(before.of(TypeUrl::Endpoint), after.of(TypeUrl::Endpoint), "{proxy}");
        for kept in [TypeUrl::Cluster, TypeUrl::Listener] {
            assert!(before.of(kept).ptr_eq(after.of(kept)), "{kept} of {proxy}");
        }
    }
}

#[test]
fn unchanged_resources_update_no_proxy() {
    let mut world = two_callers();
    let again = world.dataplane("backend-1", dataplane("backend-1", &[inbound(8080, "backend", "http")], &[]));
    assert_eq!((again.stats, again.proxies.len()), (Stats::default(), 0));
    let unused = world.dataplane("lonely", dataplane("lonely", &[inbound(1, "lonely", "tcp")], &[]));
    assert_eq!((unused.stats, unused.proxies.len()), (Stats::default(), 0));
    let tick = world.apply(EngineChange::Tick);
    assert_eq!((tick.stats, tick.proxies.len()), (Stats::default(), 0));
}

#[test]
fn replica_encodes_only_its_own_inbound() {
    let mut world = two_callers();
    world.dataplane("web-3", dataplane("web-3", &[inbound(80, "web", "http")], &[(10001, "backend")]));
    let outcome = world.connect("web-3");
    // It has the same address as the other replicas in this test, so even its inbound is shared.
    assert_eq!(outcome.stats, Stats { encoded: 0, woken: 1 });
}

#[test]
fn permission_updates_only_the_proxies_that_it_selects() {
    let mut world = two_callers();
    world.mesh(r#"{"mtls": {"enabledBackend": "ca", "backends": [{"name": "ca", "type": "builtin"}]}}"#);
    let policy = r#"{"targetRef": {"kind": "MeshService", "name": "web"},
        "from": [{"targetRef": {"kind": "Mesh"}, "default": {"action": "Allow"}}]}"#;
    let outcome = world.permission("allow", Some(policy));
    assert_eq!(outcome.proxies.iter().map(|each| each.key.name.to_string()).collect::<Vec<_>>(), ["web-1", "web-2"]);
    assert_eq!(world.permission("allow", Some(policy)).proxies.len(), 0);
    assert_eq!(world.permission("allow", None).stats.woken, 2);
}

#[test]
fn rollout_step_is_published_to_proxies_whose_resources_stay_equal() {
    let mut world = World::default();
    world.mesh("{}");
    let gateway = r#"{"networking": {"address": "10.0.0.9", "gateway": {"tags": {"kuma.io/service": "edge"}}}}"#;
    world.dataplane("edge", gateway.to_owned());
    world.connect("edge");
    let outcome = world.mesh(r#"{"mtls": {"enabledBackend": "ca", "backends": [{"name": "ca", "type": "builtin"}]}}"#);
    assert_eq!(&*outcome.proxies[0].rollout, "accept=mtls call=mtls signer=ca trust=ca");
    assert_eq!(&*outcome.proxies[0].issued.as_ref().unwrap().issuer, "ca");
    assert!(
        names(&world, "edge", TypeUrl::Secret).is_empty(),
        "no resource references them, so Envoy never subscribes to them"
    );
    world.dataplane("web", dataplane("web", &[inbound(8080, "web", "http")], &[]));
    world.connect("web");
    assert_eq!(names(&world, "web", TypeUrl::Secret), ["identity_cert:secret:default", "mesh_ca:secret:default"]);
    // It has no inbound: only the rollout step changes for it.
    let permissive =
        r#"{"mtls": {"enabledBackend": "ca", "backends": [{"name": "ca", "type": "builtin", "mode": "PERMISSIVE"}]}}"#;
    let before = world.snapshot("edge");
    let outcome = world.mesh(permissive);
    assert_eq!(&*outcome.proxies[0].rollout, "accept=both call=mtls strict=allowed signer=ca trust=ca");
    assert_eq!(world.snapshot("edge").resources, before.resources);
}

#[test]
fn secrets_are_published_with_the_first_reference_to_them() {
    let mut world = two_callers();
    let gateway = r#"{"networking": {"address": "10.0.0.9", "gateway": {"tags": {"kuma.io/service": "edge"}},
        "outbound": [{"port": 10001, "tags": {"kuma.io/service": "backend"}}]}}"#;
    world.dataplane("edge", gateway.to_owned());
    world.connect("edge");
    world.rollout(world.next_rollout());
    world.mesh(r#"{"mtls": {"enabledBackend": "ca", "backends": [{"name": "ca", "type": "builtin"}]}}"#);
    world.rollout(world.next_rollout());
    // Servers accept both, but no client uses mTLS yet, and this proxy serves nothing.
    assert_eq!(names(&world, "edge", TypeUrl::Secret), Vec::<String>::new());
    let outcome = world.rollout(world.next_rollout());
    assert!(outcome.proxies.iter().all(|each| each.faults.is_empty()));
    let expected = ["identity_cert:secret:default", "mesh_ca:secret:default:backend"];
    assert_eq!(names(&world, "edge", TypeUrl::Secret), expected, "it has no inbound that verifies callers");
}

#[test]
fn renewal_replaces_only_the_certificate() {
    let mut world = two_callers();
    world.mesh(r#"{"mtls": {"enabledBackend": "ca", "backends": [{"name": "ca", "type": "builtin"}]}}"#);
    let before = world.snapshot("web-1");
    world.pass_hours(13);
    let outcome = world.apply(EngineChange::Tick);
    assert_eq!(outcome.stats, Stats { encoded: 3, woken: 3 });
    let after = world.snapshot("web-1");
    assert_ne!(before.of(TypeUrl::Secret), after.of(TypeUrl::Secret));
    assert_eq!(before.of(TypeUrl::Listener), after.of(TypeUrl::Listener));
    assert_eq!(before.of(TypeUrl::Cluster), after.of(TypeUrl::Cluster));
}

#[test]
fn faulty_listener_stays_as_it_was_and_everything_else_is_published() {
    let mut world = two_callers();
    let good = world.snapshot("web-1");
    // Two outbounds at one address.
    let outbounds = [(10001, "backend"), (10001, "web"), (10002, "other")];
    let outcome = world.dataplane("web-1", dataplane("web-1", &[inbound(81, "web", "http")], &outbounds));
    let updated = outcome.proxies.iter().find(|each| *each.key.name == *"web-1").unwrap();
    assert!(updated.faults[0].contains("127.0.0.1:10001"), "{:?}", updated.faults);
    let now = world.snapshot("web-1");
    assert_eq!(
        names(&world, "web-1", TypeUrl::Listener),
        ["inbound:10.0.0.1:81", "outbound:127.0.0.1:10001", "outbound:127.0.0.1:10002"]
    );
    let of = |snapshot: &Snapshot| snapshot.of(TypeUrl::Listener)["outbound:127.0.0.1:10001"].clone();
    assert_eq!(of(&now), of(&good));
    // Endpoints do not wait for the fault.
    world.dataplane("backend-2", dataplane("backend-2", &[inbound(8080, "backend", "http")], &[]));
    assert_ne!(world.snapshot("web-1").of(TypeUrl::Endpoint)["backend"], good.of(TypeUrl::Endpoint)["backend"]);
    world.remove_dataplane("backend-2");
    let outcome = world.dataplane("web-1", dataplane("web-1", &[inbound(80, "web", "http")], &[(10001, "backend")]));
    assert!(outcome.proxies.iter().all(|each| each.faults.is_empty()));
    assert_eq!(world.snapshot("web-1").resources, good.resources);
}

#[test]
fn inbounds_share_a_cluster_only_with_the_same_workload_and_protocol() {
    let mut world = World::default();
    world.mesh("{}");
    let with = |address: &str, protocol: &str| {
        let front = |port: u32| {
            let mut inbound = inbound(port, "web", if port == 81 { protocol } else { "http" });
            inbound["servicePort"] = 9000.into();
            inbound["serviceAddress"] = if port == 81 { address.into() } else { "127.0.0.1".into() };
            inbound
        };
        dataplane("web-1", &[front(80), front(81)], &[])
    };
    world.dataplane("web-1", with("127.0.0.1", "http"));
    world.connect("web-1");
    assert_eq!(names(&world, "web-1", TypeUrl::Cluster), ["localhost:9000"]);
    for (address, protocol) in [("127.0.0.2", "http"), ("127.0.0.1", "tcp")] {
        world.dataplane("web-1", with(address, protocol));
        assert_eq!(names(&world, "web-1", TypeUrl::Cluster), ["localhost:9000", "localhost:9000:81"]);
    }
}

#[test]
fn redirected_proxies_get_outbounds_once_services_have_virtual_addresses() {
    let mut world = two_callers();
    world.redirected("app", &["backend"]);
    assert_eq!(names(&world, "app", TypeUrl::Endpoint), Vec::<String>::new());
    world.assign_vips();
    assert_eq!(names(&world, "app", TypeUrl::Endpoint), ["backend"]);
    world.redirected("all", &[]);
    world.assign_vips();
    assert_eq!(names(&world, "all", TypeUrl::Endpoint), ["all", "app", "backend", "other", "web"]);
}
