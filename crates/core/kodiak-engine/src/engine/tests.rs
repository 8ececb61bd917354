//! A mesh that changes: what is sent, to whom, and what it costs.

mod objects;
mod policies;
mod scratch;
mod world;

use std::sync::Arc;

use kodiak_xds_stream::TypeUrl;
use world::{World, dataplane, inbound};

use super::*;

fn names(world: &World, proxy: &str, type_url: TypeUrl) -> Vec<String> {
    let snapshot = world.snapshot(proxy);
    snapshot.of(type_url).keys().map(ToString::to_string).collect()
}

/// Two callers that list `backend`, one that does not, and two instances of `backend`.
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
fn a_proxy_gets_what_it_serves_and_what_it_calls_and_no_more() {
    let world = two_callers();
    assert_eq!(names(&world, "web-1", TypeUrl::Cluster), ["backend", "localhost:80"]);
    assert_eq!(names(&world, "web-1", TypeUrl::Endpoint), ["backend"]);
    assert_eq!(names(&world, "web-1", TypeUrl::Listener), ["inbound:10.0.0.1:80", "outbound:127.0.0.1:10001"]);
    assert_eq!(names(&world, "other", TypeUrl::Cluster), ["localhost:80", "web"]);
}

#[test]
fn a_new_endpoint_is_encoded_once_and_wakes_only_its_callers() {
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
fn what_a_change_does_not_touch_is_not_even_copied() {
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
fn equal_means_silent() {
    let mut world = two_callers();
    let again = world.dataplane("backend-1", dataplane("backend-1", &[inbound(8080, "backend", "http")], &[]));
    assert_eq!((again.stats, again.proxies.len()), (Stats::default(), 0));
    let unused = world.dataplane("lonely", dataplane("lonely", &[inbound(1, "lonely", "tcp")], &[]));
    assert_eq!((unused.stats, unused.proxies.len()), (Stats::default(), 0));
    assert_eq!(unused.services.len(), 1);
    let tick = world.apply(Change::Tick);
    assert_eq!((tick.stats, tick.proxies.len()), (Stats::default(), 0));
}

#[test]
fn replicas_cost_their_own_inbound_only() {
    let mut world = two_callers();
    world.dataplane("web-3", dataplane("web-3", &[inbound(80, "web", "http")], &[(10001, "backend")]));
    let outcome = world.connect("web-3");
    // The same address as the other replicas here, so even its inbound is shared.
    assert_eq!(outcome.stats, Stats { encoded: 0, woken: 1 });
}

#[test]
fn a_permission_wakes_only_whom_it_is_for() {
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
fn mtls_brings_secrets_and_a_step_is_told_to_proxies_that_it_does_not_change() {
    let mut world = World::default();
    world.mesh("{}");
    let gateway = r#"{"networking": {"address": "10.0.0.9", "gateway": {"tags": {"kuma.io/service": "edge"}}}}"#;
    world.dataplane("edge", gateway.to_owned());
    world.connect("edge");
    let outcome = world.mesh(r#"{"mtls": {"enabledBackend": "ca", "backends": [{"name": "ca", "type": "builtin"}]}}"#);
    assert_eq!(&*outcome.proxies[0].rollout, "accept=mtls call=mtls signer=ca trust=ca");
    assert_eq!(&*outcome.proxies[0].issued.as_ref().unwrap().backend, "ca");
    assert!(names(&world, "edge", TypeUrl::Secret).is_empty(), "nothing of it uses them, so it never asks for them");
    world.dataplane("web", dataplane("web", &[inbound(8080, "web", "http")], &[]));
    world.connect("web");
    assert_eq!(names(&world, "web", TypeUrl::Secret), ["identity_cert:secret:default", "mesh_ca:secret:default"]);
    // It has no inbound: nothing is different for it but the step itself.
    let permissive =
        r#"{"mtls": {"enabledBackend": "ca", "backends": [{"name": "ca", "type": "builtin", "mode": "PERMISSIVE"}]}}"#;
    let before = world.snapshot("edge");
    let outcome = world.mesh(permissive);
    assert_eq!(&*outcome.proxies[0].rollout, "accept=both call=mtls signer=ca trust=ca");
    assert_eq!(world.snapshot("edge").resources, before.resources);
}

#[test]
fn secrets_come_with_the_first_need_for_them() {
    let mut world = two_callers();
    let gateway = r#"{"networking": {"address": "10.0.0.9", "gateway": {"tags": {"kuma.io/service": "edge"}},
        "outbound": [{"port": 10001, "tags": {"kuma.io/service": "backend"}}]}}"#;
    world.dataplane("edge", gateway.to_owned());
    world.connect("edge");
    world.rollout(world.next_rollout());
    world.mesh(r#"{"mtls": {"enabledBackend": "ca", "backends": [{"name": "ca", "type": "builtin"}]}}"#);
    world.rollout(world.next_rollout());
    // Servers take both, but nobody calls with mTLS yet, and this one serves nothing.
    assert_eq!(names(&world, "edge", TypeUrl::Secret), Vec::<String>::new());
    let outcome = world.rollout(world.next_rollout());
    assert!(outcome.proxies.iter().all(|each| each.faults.is_empty()));
    assert_eq!(names(&world, "edge", TypeUrl::Secret), ["identity_cert:secret:default", "mesh_ca:secret:default"]);
}

#[test]
fn a_certificate_that_is_due_is_replaced_and_nothing_else() {
    let mut world = two_callers();
    world.mesh(r#"{"mtls": {"enabledBackend": "ca", "backends": [{"name": "ca", "type": "builtin"}]}}"#);
    let before = world.snapshot("web-1");
    world.pass_hours(13);
    let outcome = world.apply(Change::Tick);
    assert_eq!(outcome.stats, Stats { encoded: 3, woken: 3 });
    let after = world.snapshot("web-1");
    assert_ne!(before.of(TypeUrl::Secret), after.of(TypeUrl::Secret));
    assert_eq!(before.of(TypeUrl::Listener), after.of(TypeUrl::Listener));
    assert_eq!(before.of(TypeUrl::Cluster), after.of(TypeUrl::Cluster));
}

#[test]
fn a_set_with_a_fault_is_not_published_and_the_last_good_one_stays() {
    let mut world = two_callers();
    let good = world.snapshot("web-1");
    // Two outbounds at one address.
    let outbounds = [(10001, "backend"), (10001, "web")];
    let outcome = world.dataplane("web-1", dataplane("web-1", &[inbound(80, "web", "http")], &outbounds));
    assert_eq!(outcome.proxies.len(), 1);
    assert!(outcome.proxies[0].faults[0].contains("127.0.0.1:10001"), "{:?}", outcome.proxies[0].faults);
    assert_eq!(world.snapshot("web-1"), good);
    let outcome = world.dataplane("web-1", dataplane("web-1", &[inbound(80, "web", "http")], &[(10001, "backend")]));
    assert!(outcome.proxies[0].faults.is_empty());
    assert_eq!(world.snapshot("web-1").resources, good.resources);
}

#[test]
fn inbounds_of_one_workload_share_its_cluster_and_others_do_not() {
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
fn redirected_proxies_call_services_at_their_virtual_addresses() {
    let mut world = two_callers();
    world.redirected("app", &["backend"]);
    assert_eq!(names(&world, "app", TypeUrl::Endpoint), Vec::<String>::new());
    world.assign_vips();
    assert_eq!(names(&world, "app", TypeUrl::Endpoint), ["backend"]);
    world.redirected("all", &[]);
    world.assign_vips();
    assert_eq!(names(&world, "all", TypeUrl::Endpoint), ["all", "app", "backend", "other", "web"]);
}
