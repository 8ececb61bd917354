//! Addresses at which destinations are called: of their instances, of loopback interfaces, and of resources that claim
//! the same name.

use kodiak_model::kinds::dataplane::BackendKind;
use kodiak_xds::node::{NodeMetadata, features};
use kodiak_xds_stream::TypeUrl;
use serde_json::{Value, json};

use super::{
    names, resource,
    world::{World, dataplane, inbound},
};

const MTLS: &str = r#"{"mtls": {"enabledBackend": "ca", "backends": [{"name": "ca", "type": "builtin"}]}}"#;

fn direct(world: &World, proxy: &str) -> Vec<String> {
    names(world, proxy, TypeUrl::Listener).into_iter().filter(|name| name.starts_with("direct_access_")).collect()
}

/// `front` calls instances of these services directly.
fn front(world: &mut World, services: &[&str]) {
    let spec = json!({ "networking": {
        "address": "10.0.0.7",
        "inbound": [inbound(80, "front", "http")],
        "transparentProxying": {
            "redirectPortInbound": 15006, "redirectPortOutbound": 15001, "directAccessServices": services,
        },
    } });
    world.dataplane("front", spec.to_string());
    let admin_socket = Some("/tmp/admin.sock".to_owned());
    world.connect_as("front", NodeMetadata { admin_socket, ..NodeMetadata::default() });
}

#[test]
fn instances_are_called_directly_with_mtls() {
    let mut world = World::default();
    world.mesh(MTLS);
    world.rollout(world.next_rollout());
    world.dataplane("backend-1", dataplane("backend-1", &[inbound(8080, "backend", "http")], &[]));
    world.dataplane("other-2", dataplane("other-2", &[inbound(8080, "other", "tcp")], &[]));
    front(&mut world, &["backend"]);
    assert_eq!(direct(&world, "front"), ["direct_access_10.0.1.1:8080"]);
    let listener = resource(&world, "front", TypeUrl::Listener, "direct_access_10.0.1.1:8080");
    assert_eq!(listener["bindToPort"], false);
    assert_eq!(listener["filterChains"][0]["filters"][0]["typedConfig"]["cluster"], "direct_access");
    let cluster = resource(&world, "front", TypeUrl::Cluster, "direct_access");
    assert_eq!(cluster["type"], "ORIGINAL_DST");
    assert!(cluster["transportSocket"].is_object());

    // An instance that is not ready can be called, too.
    let mut down = inbound(8080, "backend", "http");
    down["state"] = json!("NotReady");
    world.dataplane("backend-3", dataplane("backend-3", &[down], &[]));
    assert_eq!(direct(&world, "front").len(), 2);
    world.remove_dataplane("backend-1");
    assert_eq!(direct(&world, "front"), ["direct_access_10.0.1.3:8080"]);
}

#[test]
fn a_star_selects_all_instances_but_its_own() {
    let mut world = World::default();
    world.mesh("{}");
    world.dataplane("backend-1", dataplane("backend-1", &[inbound(8080, "backend", "http")], &[]));
    front(&mut world, &["*"]);
    assert_eq!(direct(&world, "front"), ["direct_access_10.0.1.1:8080"]);
    assert_eq!(resource(&world, "front", TypeUrl::Cluster, "direct_access")["transportSocket"], Value::Null);
    front(&mut world, &[]);
    assert!(direct(&world, "front").is_empty());
    assert!(!names(&world, "front", TypeUrl::Cluster).contains(&"direct_access".to_owned()));
}

fn mesh_service(vip: &str, hostnames: &[&str], created: i64) -> Value {
    let hostnames: Vec<Value> = hostnames.iter().map(|hostname| json!({ "hostname": hostname })).collect();
    json!({
        "created": created,
        "labels": { "kuma.io/display-name": "backend", "kuma.io/zone": "default", "kuma.io/origin": "zone" },
        "spec": {
            "selector": { "dataplaneTags": { "kuma.io/service": "backend" } },
            "ports": [{ "port": 80, "targetPort": 8080, "appProtocol": "http" }],
        },
        "status": { "vips": [{ "ip": vip }], "addresses": hostnames },
    })
}

#[test]
fn outbounds_at_loopback_addresses_bind_when_the_proxy_asks_for_it() {
    let mut world = World::default();
    world.mesh(r#"{"meshServices": {"mode": "Everywhere"}}"#);
    world.dataplane("web-1", dataplane("web-1", &[inbound(80, "web", "http")], &[]));
    world.dataplane("backend-1", dataplane("backend-1", &[inbound(8080, "backend", "http")], &[]));
    world.object(BackendKind::MeshService, "backend", Some(mesh_service("127.1.0.1", &[], 0)));
    world.assign_vips();
    world.connect("web-1");
    assert_eq!(names(&world, "web-1", TypeUrl::Listener), ["inbound:10.0.0.1:80"], "it lists no outbounds");
    let features = [features::BIND_OUTBOUNDS.to_owned()].into();
    world.connect_as("web-1", NodeMetadata { features, ..NodeMetadata::default() });
    let binds = |name: &str| resource(&world, "web-1", TypeUrl::Listener, name)["bindToPort"].clone();
    assert_eq!(binds("outbound:127.1.0.1:80"), Value::Null, "a listener binds by default");
    assert_eq!(binds("outbound:240.0.0.0:80"), false);
}

/// Of two resources with one KRI, the one with the hostname has the listener.
#[test]
fn hostname_and_listener_are_of_the_same_resource() {
    let listeners = |world: &World| -> Vec<String> {
        let all = names(world, "front", TypeUrl::Listener).into_iter();
        all.filter(|name| name.starts_with("outbound:241.")).collect()
    };
    for hostname_first in [true, false] {
        let mut world = World::default();
        world.mesh(r#"{"meshServices": {"mode": "Everywhere"}}"#);
        world.redirected("front", &[]);
        let (old, new): (&[&str], &[&str]) = if hostname_first { (&["b.mesh"], &[]) } else { (&[], &["b.mesh"]) };
        world.object(BackendKind::MeshService, "z", Some(mesh_service("241.0.0.1", old, 1)));
        world.object(BackendKind::MeshService, "a", Some(mesh_service("241.0.0.2", new, 2)));
        let expected = if hostname_first { "outbound:241.0.0.1:80" } else { "outbound:241.0.0.2:80" };
        assert_eq!(listeners(&world), [expected]);
    }
    // Without hostnames the oldest has it, as it will have the hostname.
    let mut world = World::default();
    world.mesh(r#"{"meshServices": {"mode": "Everywhere"}}"#);
    world.redirected("front", &[]);
    world.object(BackendKind::MeshService, "a", Some(mesh_service("241.0.0.2", &[], 2)));
    world.object(BackendKind::MeshService, "z", Some(mesh_service("241.0.0.1", &[], 1)));
    assert_eq!(listeners(&world), ["outbound:241.0.0.1:80"]);
}
