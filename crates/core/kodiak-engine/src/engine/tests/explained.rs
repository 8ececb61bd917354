//! Proxies that lost destinations, and answer calls to them.

use kodiak_model::kinds::dataplane::BackendKind;
use kodiak_reachability::Mode;
use kodiak_xds::{
    names,
    node::{NodeMetadata, Redirect, TransparentProxy},
};
use kodiak_xds_stream::TypeUrl;
use serde_json::{Value, json};

use super::world::{World, dataplane, inbound};
use crate::{EngineSettings, Stats, redacted};

const MTLS: &str = r#"{ "mtls": { "enabledBackend": "ca", "backends": [{ "name": "ca", "type": "builtin" }] } }"#;

/// Clients `a` and `b` with DNS, and servers `x` and `y`, of which `x` allows `a`.
fn mesh(mut world: World) -> World {
    world.mesh(MTLS);
    for name in ["x", "y"] {
        world.dataplane(name, dataplane(name, &[inbound(80, name, "http")], &[]));
    }
    let from = json!([{ "targetRef": { "kind": "MeshService", "name": "a" }, "default": { "action": "Allow" } }]);
    world.permission(
        "x",
        Some(&json!({ "targetRef": { "kind": "MeshService", "name": "x" }, "from": from }).to_string()),
    );
    for name in ["a", "b"] {
        world.dataplane(name, dataplane(name, &[inbound(80, name, "http")], &[]));
        let redirect = |port| Redirect { enabled: true, port: Some(port) };
        let (inbound, outbound, dns) = (redirect(15006), redirect(15001), redirect(15053));
        let transparent_proxy = Some(TransparentProxy { inbound, outbound, dns, ..TransparentProxy::default() });
        world.connect_as(name, NodeMetadata { transparent_proxy, dns_port: Some(15053), ..NodeMetadata::default() });
    }
    world.assign_vips();
    world.acknowledge();
    world
}

fn listener(world: &World, proxy: &str, name: &str) -> Value {
    redacted::config(&world.snapshot(proxy)).unwrap()[TypeUrl::Listener.as_str()][name].clone()
}

/// Names that resolve.
fn resolved(world: &World, proxy: &str) -> Vec<String> {
    let listener = listener(world, proxy, names::DNS);
    let table = &listener["listenerFilters"][0]["typedConfig"]["serverConfig"]["inlineDnsTable"];
    let domains = table["virtualDomains"].as_array().map(Vec::as_slice).unwrap_or_default();
    domains.iter().map(|domain| domain["name"].as_str().unwrap().to_owned()).collect()
}

/// Ranges of addresses whose calls the proxy answers itself.
fn answered(world: &World, proxy: &str) -> Vec<String> {
    let listener = listener(world, proxy, names::OUTBOUND_PASSTHROUGH_IPV4);
    let ranges = listener["filterChains"][0]["filterChainMatch"]["prefixRanges"].as_array().cloned();
    let shown = |range: Value| format!("{}/{}", range["addressPrefix"].as_str().unwrap(), range["prefixLen"]);
    ranges.unwrap_or_default().into_iter().map(shown).collect()
}

#[test]
fn names_of_trimmed_destinations_resolve_and_the_proxy_answers() {
    let mut world = mesh(World::new(Mode::On));
    for proxy in ["a", "b"] {
        assert_eq!(resolved(&world, proxy), ["a.mesh", "b.mesh", "x.mesh", "y.mesh"]);
        assert_eq!(answered(&world, proxy), ["240.0.0.0/4"]);
    }
    // A proxy with all destinations does not answer for others, and neither does one that lists its own.
    world.reachability(Some(Mode::Off));
    assert_eq!(resolved(&world, "a").len(), 4);
    assert_eq!(answered(&world, "a"), [""; 0]);
    world.reachability(Some(Mode::On));
    world.redirected("listed", &["x"]);
    assert_eq!((answered(&world, "a").len(), answered(&world, "listed").len()), (1, 0));
}

#[test]
fn without_the_setting_names_of_trimmed_destinations_do_not_resolve() {
    let world = mesh(World::with(EngineSettings { explained: None, ..World::settings(Mode::On) }));
    assert_eq!((resolved(&world, "a"), resolved(&world, "b")), (vec!["x.mesh".to_owned()], vec![]));
    assert_eq!(answered(&world, "a"), [""; 0]);
}

#[test]
fn new_name_is_encoded_once_for_all() {
    let mut world = mesh(World::new(Mode::On));
    world.dataplane("z", dataplane("z", &[inbound(80, "z", "http")], &[]));
    let outcome = world.assign_vips();
    // The table, for both clients.
    assert_eq!(outcome.stats, Stats { encoded: 1, woken: 2 });
    for proxy in ["a", "b"] {
        assert_eq!(resolved(&world, proxy), ["a.mesh", "b.mesh", "x.mesh", "y.mesh", "z.mesh"]);
    }
    // A permission changes no names.
    let before = world.snapshot("b");
    world.permission("x", None);
    world.acknowledge();
    assert!(!world.snapshot("a").resources.of(TypeUrl::Cluster).contains_key("x"));
    assert_eq!(before.resources, world.snapshot("b").resources);
    world.remove_dataplane("z");
    assert_eq!(resolved(&world, "a").len(), 4);
}

#[test]
fn name_of_a_resource_resolves_unless_proxies_have_to_list_it() {
    let mut world = mesh(World::new(Mode::On));
    let service = json!({
        "created": 1,
        "labels": { "kuma.io/display-name": "y", "kuma.io/zone": "default", "kuma.io/origin": "zone" },
        "spec": {
            "selector": { "dataplaneTags": { "kuma.io/service": "y" } },
            "ports": [{ "port": 8080, "targetPort": 80, "appProtocol": "http" }],
        },
        "status": { "vips": [{ "ip": "241.0.0.1" }], "addresses": [{ "hostname": "y.svc.mesh.local" }] },
    });
    let mode = |mode: &str| {
        let mut mesh: Value = serde_json::from_str(MTLS).unwrap();
        mesh["meshServices"] = json!({ "mode": mode });
        mesh.to_string()
    };
    world.mesh(&mode("Everywhere"));
    world.object(BackendKind::MeshService, "y", Some(service));
    let has_name = |world: &World| resolved(world, "a").contains(&"y.svc.mesh.local".to_owned());
    assert!(has_name(&world));
    world.mesh(&mode("ReachableBackends"));
    assert!(!has_name(&world));
    world.mesh(&mode("Exclusive"));
    assert_eq!(resolved(&world, "a"), ["y.svc.mesh.local"]);
}
