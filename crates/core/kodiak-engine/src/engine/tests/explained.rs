//! Proxies that lost destinations, and answer calls to them.

use std::sync::Arc;

use kodiak_envoy::{
    envoy::{
        config::{core::v3::data_source::Specifier, listener::v3::filter, route::v3::route::Action},
        extensions::filters::network::http_connection_manager::v3::{
            HttpConnectionManager, http_connection_manager::RouteSpecifier,
        },
    },
    unpack,
};
use kodiak_model::kinds::dataplane::BackendKind;
use kodiak_reachability::Mode;
use kodiak_xds::{
    names,
    node::{NodeMetadata, Redirect, TransparentProxy, features},
};
use kodiak_xds_stream::{Snapshot, TypeUrl};
use serde_json::{Value, json};

use super::world::{World, dataplane, inbound};
use crate::{EngineSettings, Stats, patched, redacted};

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
        client(&mut world, name);
    }
    world.assign_vips();
    world.acknowledge();
    world
}

/// A proxy with the DNS server of `kodiak dp`.
fn client(world: &mut World, name: &str) {
    world.dataplane(name, dataplane(name, &[inbound(80, name, "http")], &[]));
    let redirect = |port| Redirect { enabled: true, port: Some(port) };
    let (inbound, outbound, dns) = (redirect(15006), redirect(15001), redirect(15053));
    let metadata = NodeMetadata {
        transparent_proxy: Some(TransparentProxy { inbound, outbound, dns, ..TransparentProxy::default() }),
        dns_port: Some(15053),
        workdir: Some("/work".to_owned()),
        features: [features::EMBEDDED_DNS.to_owned()].into(),
        ..NodeMetadata::default()
    };
    world.connect_as(name, metadata);
}

fn listener(world: &World, proxy: &str, name: &str) -> Value {
    redacted::config(&world.snapshot(proxy)).unwrap()[TypeUrl::Listener.as_str()][name].clone()
}

/// Configuration that `kodiak dp` reads.
fn document(world: &World, proxy: &str) -> Value {
    let snapshot = world.snapshot(proxy);
    let listener = patched::listener(&snapshot.of(TypeUrl::Listener)[names::DYNAMIC_CONFIG]).unwrap();
    let filter = listener.filter_chains[0].filters[0].config_type.clone().unwrap();
    let filter::ConfigType::TypedConfig(manager) = filter else { panic!("{filter:?}") };
    let manager: HttpConnectionManager = unpack(&manager).unwrap();
    let Some(RouteSpecifier::RouteConfig(routes)) = manager.route_specifier else { panic!("{manager:?}") };
    let bodies = routes.virtual_hosts[0].routes.iter().filter_map(|route| match route.action.as_ref()? {
        Action::DirectResponse(response) => response.body.clone()?.specifier,
        _ => None,
    });
    let Some(Specifier::InlineBytes(body)) = bodies.last() else { panic!("{routes:?}") };
    serde_json::from_slice(&body).unwrap()
}

/// Names that the DNS server of a proxy has.
fn known(world: &World, proxy: &str) -> Vec<String> {
    let document = document(world, proxy);
    document["records"].as_array().unwrap().iter().map(|each| each["name"].as_str().unwrap().to_owned()).collect()
}

/// Of these names, those that resolve: those that the DNS server has, or that it asks the control plane for.
fn resolved(world: &World, proxy: &str, names: &[&str]) -> Vec<String> {
    let document = document(world, proxy);
    let domains: Vec<&str> = document["domains"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let known = known(world, proxy);
    let is_asked = |name: &str| domains.iter().any(|domain| name.ends_with(&format!(".{domain}")));
    let has = |name: &str| world.hostnames.as_ref().is_some_and(|all| all.address(name).is_some());
    let resolves = |name: &&&str| known.iter().any(|each| each == **name) || is_asked(name) && has(name);
    names.iter().filter(resolves).map(ToString::to_string).collect()
}

const ALL: [&str; 4] = ["a.mesh", "b.mesh", "x.mesh", "y.mesh"];

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
        assert_eq!(resolved(&world, proxy, &[&ALL[..], &["z.mesh", "x.example"]].concat()), ALL);
        assert_eq!(answered(&world, proxy), ["240.0.0.0/4"]);
    }
    assert_eq!((known(&world, "a"), known(&world, "b")), (vec!["x.mesh".to_owned()], vec![]));
    // A proxy with all destinations does not answer for others, and neither does one that lists its own.
    world.reachability(Some(Mode::Off));
    assert_eq!((known(&world, "a").len(), document(&world, "a").get("domains")), (4, None));
    assert_eq!((answered(&world, "a"), &world.hostnames), (vec![], &None));
    world.reachability(Some(Mode::On));
    world.redirected("listed", &["x"]);
    assert_eq!((answered(&world, "a").len(), answered(&world, "listed").len()), (1, 0));
}

#[test]
fn without_the_setting_names_of_trimmed_destinations_do_not_resolve() {
    let world = mesh(World::with(EngineSettings { explained: None, ..World::settings(Mode::On) }));
    assert_eq!((resolved(&world, "a", &ALL), resolved(&world, "b", &ALL)), (vec!["x.mesh".to_owned()], vec![]));
    assert_eq!(answered(&world, "a"), [""; 0]);
}

#[test]
fn new_name_resolves_and_costs_nothing() {
    let mut world = mesh(World::new(Mode::On));
    world.dataplane("z", dataplane("z", &[inbound(80, "z", "http")], &[]));
    assert_eq!(world.assign_vips().stats, Stats::default());
    for proxy in ["a", "b"] {
        assert_eq!(resolved(&world, proxy, &["z.mesh"]), ["z.mesh"]);
    }
    // Only the name of what the client may call moves into its table.
    world.permission("x", None);
    world.acknowledge();
    assert!(!world.snapshot("a").resources.of(TypeUrl::Cluster).contains_key("x"));
    assert_eq!((known(&world, "a"), resolved(&world, "a", &ALL)), (vec![], ALL.map(str::to_owned).into()));
    world.remove_dataplane("z");
    assert_eq!(resolved(&world, "a", &["z.mesh"]), [""; 0]);
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
    let has_name = |world: &World| !resolved(world, "a", &["y.svc.mesh.local"]).is_empty();
    assert!(has_name(&world));
    world.mesh(&mode("ReachableBackends"));
    assert!(!has_name(&world));
    world.mesh(&mode("Exclusive"));
    assert_eq!(resolved(&world, "a", &[&ALL[..], &["y.svc.mesh.local"]].concat()), ["y.svc.mesh.local"]);
}

/// Bytes that all proxies of a mesh of this size are sent when a service is added.
fn bytes_for_a_new_service(services: usize) -> (usize, u64) {
    let mut world = World::new(Mode::On);
    world.mesh(MTLS);
    let names: Vec<String> = (0..services).map(|number| format!("service-{number:04}")).collect();
    for name in &names {
        client(&mut world, name);
    }
    world.assign_vips();
    world.acknowledge();
    let before: Vec<_> = names.iter().map(|name| world.snapshot(name)).collect();
    world.dataplane("new", dataplane("new", &[inbound(80, "new", "http")], &[]));
    let outcome = world.assign_vips();
    let of = |(before, name): (&Arc<Snapshot>, &String)| {
        let now = world.snapshot(name);
        let changed = |each: &TypeUrl| {
            let old = before.resources.of(*each).clone();
            let new = now.resources.of(*each).values().filter(move |new| old.get(&new.name) != Some(new));
            new.map(|new| new.delta.len()).sum::<usize>()
        };
        TypeUrl::ALL.iter().map(changed).sum::<usize>()
    };
    (before.iter().zip(&names).map(of).sum(), outcome.stats.woken)
}

#[test]
fn new_service_sends_nothing_to_proxies_that_may_not_call_it() {
    assert_eq!(bytes_for_a_new_service(50), (0, 0));
}
