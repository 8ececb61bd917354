//! Lists of Dataplanes whose destinations are trimmed.

use std::collections::BTreeSet;

use kodiak_model::kinds::dataplane::BackendKind;
use kodiak_reachability::Mode;
use kodiak_xds::node::NodeMetadata;
use kodiak_xds_stream::TypeUrl;
use proptest::{collection::vec, option, prelude::*, sample::select};
use serde_json::{Value, json};

use super::{
    names,
    world::{World, dataplane, inbound},
};

const SERVERS: [&str; 3] = ["x", "y", "z"];

/// Lists of a Dataplane.
#[derive(Debug, Clone, Default)]
struct Lists {
    services: Vec<&'static str>,
    backends: Option<Vec<Value>>,
}

/// Servers with a MeshService each, which admit `client` or nobody.
fn mesh(mode: Mode, services_mode: &str, allowed: &BTreeSet<&str>) -> World {
    let mut world = World::new(mode);
    let mtls = json!({ "enabledBackend": "ca", "backends": [{ "name": "ca", "type": "builtin" }] });
    world.mesh(&json!({ "mtls": mtls, "meshServices": { "mode": services_mode } }).to_string());
    for (n, name) in SERVERS.into_iter().enumerate() {
        world.dataplane(name, dataplane(name, &[inbound(80, name, "http")], &[]));
        let labels = json!({ "kuma.io/display-name": name, "odd": (n % 2).to_string() });
        let spec = json!({
            "selector": { "dataplaneTags": { "kuma.io/service": name } },
            "ports": [{ "port": 80, "targetPort": 80, "appProtocol": "http" }],
        });
        let status = json!({ "vips": [{ "ip": format!("241.0.0.{n}") }] });
        let stored = json!({ "labels": labels, "spec": spec, "status": status });
        world.object(BackendKind::MeshService, name, Some(stored));
        if allowed.contains(name) {
            let from = json!([{ "targetRef": { "kind": "Mesh" }, "default": { "action": "Allow" } }]);
            let target = json!({ "kind": "MeshService", "name": name });
            world.permission(name, Some(&json!({ "targetRef": target, "from": from }).to_string()));
        }
    }
    world.assign_vips();
    world
}

/// Clusters of other services that a client with these lists has.
fn clusters(world: &mut World, lists: &Lists) -> BTreeSet<String> {
    let mut transparent = json!({
        "redirectPortInbound": 15006, "redirectPortOutbound": 15001, "reachableServices": lists.services,
    });
    if let Some(refs) = &lists.backends {
        transparent["reachableBackends"] = json!({ "refs": refs });
    }
    let spec = json!({ "networking": {
        "address": "10.0.0.7", "inbound": [inbound(80, "client", "http")], "transparentProxying": transparent,
    } });
    world.dataplane("client", spec.to_string());
    world.connect_as("client", NodeMetadata::default());
    world.assign_vips();
    world.acknowledge();
    let all = names(world, "client", TypeUrl::Cluster).into_iter();
    all.filter(|name| SERVERS.iter().any(|server| is_of(name, server))).collect()
}

fn is_of(cluster: &str, server: &str) -> bool {
    cluster == server || cluster.starts_with(&format!("{server}_"))
}

fn a_reference() -> impl Strategy<Value = Value> {
    let by_name = select(&SERVERS[..]).prop_map(|name| json!({ "kind": "MeshService", "name": name }));
    let by_label = select(&["0", "1"][..]).prop_map(|odd| json!({ "kind": "MeshService", "labels": { "odd": odd } }));
    prop_oneof![by_name, by_label, Just(json!({ "kind": "MeshService", "labels": {} }))]
}

fn lists() -> impl Strategy<Value = Lists> {
    let services = vec(select(&SERVERS[..]), 0..3);
    (services, option::of(vec(a_reference(), 0..3))).prop_map(|(services, backends)| Lists { services, backends })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    /// A proxy has the destinations that both its lists and the permissions leave it, so a list never adds one.
    #[test]
    fn list_and_permissions_both_bound_the_destinations(
        lists in lists(),
        allowed in vec(select(&SERVERS[..]), 0..3),
        services_mode in select(&["Disabled", "Everywhere", "ReachableBackends", "Exclusive"][..]),
    ) {
        let allowed: BTreeSet<&str> = allowed.into_iter().collect();
        let listed = clusters(&mut mesh(Mode::Off, services_mode, &allowed), &lists);
        let found = clusters(&mut mesh(Mode::On, services_mode, &allowed), &lists);
        let is_allowed = |name: &&String| allowed.iter().any(|server| is_of(name, server));
        let expected: BTreeSet<String> = listed.iter().filter(is_allowed).cloned().collect();
        prop_assert_eq!(&found, &expected);
        // Without a list, this mode has no resources: the list asks for them.
        if services_mode != "ReachableBackends" {
            let without = clusters(&mut mesh(Mode::On, services_mode, &allowed), &Lists::default());
            prop_assert!(found.is_subset(&without), "{found:?} {without:?}");
        }
    }
}

#[test]
fn consumer_that_asks_for_all_mesh_services_stays_trimmed() {
    let mut world = mesh(Mode::On, "ReachableBackends", &["y"].into());
    let all = json!({ "kind": "MeshService", "labels": {} });
    let found = clusters(&mut world, &Lists { backends: Some(vec![all]), ..Lists::default() });
    assert_eq!(found.len(), 2, "the service and the MeshService y: {found:?}");
    assert!(found.contains("y"), "{found:?}");
}
