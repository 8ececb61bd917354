//! Changes that can wait are applied in parts, and urgent ones overtake them.

use std::{collections::BTreeSet, sync::Arc};

use kodiak_model::ProxyKey;
use kodiak_reachability::Mode;
use kodiak_rules::{Policy, Proxy};
use kodiak_xds_stream::TypeUrl;
use serde_json::json;

use super::{
    names,
    world::{World, dataplane, dataplane_change, inbound, mesh_change, policy_change},
};
use crate::{EngineChange, Outcome};

const MTLS: &str = r#"{ "mtls": { "enabledBackend": "ca", "backends": [{ "name": "ca", "type": "builtin" }] } }"#;
const CLIENTS: usize = 10;

fn mesh(mode: Mode) -> World {
    let mut world = World::new(mode);
    world.mesh(MTLS);
    world.dataplane("x", dataplane("x", &[inbound(80, "x", "http")], &[]));
    world.connect("x");
    for n in 0..CLIENTS {
        world.redirected(&format!("client-{n}"), &[]);
    }
    world.assign_vips();
    let everybody = json!([{ "targetRef": { "kind": "Mesh" }, "default": { "action": "Allow" } }]);
    let target = json!({ "kind": "MeshService", "name": "x" });
    world.permission("x", Some(&json!({ "targetRef": target, "from": everybody }).to_string()));
    world.acknowledge();
    world.most = 3;
    world
}

/// Of the whole mesh, for inbounds and outbounds.
fn timeout(seconds: u32) -> String {
    let conf = json!({ "idleTimeout": format!("{seconds}s") });
    let to = json!([{ "targetRef": { "kind": "Mesh" }, "default": conf }]);
    json!({ "targetRef": { "kind": "Mesh" }, "rules": [{ "default": conf }], "to": to }).to_string()
}

fn updated(outcome: Outcome) -> Vec<String> {
    outcome.proxies.into_iter().map(|updated| updated.key.name.to_string()).collect()
}

#[test]
fn change_of_the_whole_mesh_is_applied_in_parts() {
    let mut world = mesh(Mode::Off);
    let first = updated(world.policy("MeshTimeout", "all", Some(&timeout(7))));
    let mut rounds = vec![first];
    while world.engine.has_unfinished() {
        rounds.push(world.go_on());
    }
    assert!(rounds.iter().all(|round| round.len() <= 3), "{rounds:?}");
    let each: BTreeSet<&String> = rounds.iter().flatten().collect();
    assert_eq!((each.len(), rounds.concat().len()), (CLIENTS + 1, CLIENTS + 1), "each proxy once: {rounds:?}");
}

#[test]
fn endpoints_and_permissions_overtake_changes_that_can_wait() {
    let mut world = mesh(Mode::On);
    world.policy("MeshTimeout", "all", Some(&timeout(7)));
    assert!(world.engine.has_unfinished());
    let endpoint = updated(world.dataplane("x-2", dataplane("x-2", &[inbound(80, "x", "http")], &[])));
    let clients = endpoint.iter().filter(|name| name.starts_with("client-")).count();
    assert_eq!(clients, CLIENTS, "all clients have the endpoint: {endpoint:?}");
    assert!(world.engine.has_unfinished());
    let target = json!({ "kind": "MeshService", "name": "x" });
    let denied = updated(world.permission("x", Some(&json!({ "targetRef": target, "from": [] }).to_string())));
    assert!(denied.contains(&"x".to_owned()), "the server has the permission: {denied:?}");
    world.acknowledge();
    let called = |world: &World| names(world, "client-7", TypeUrl::Cluster).contains(&"x".to_owned());
    assert!(!called(&world), "clients lose it without waiting for the timeout");
    world.finish();
    assert!(!called(&world));
}

/// The same in another mesh.
fn in_mesh(mesh: &str, change: EngineChange) -> EngineChange {
    let name: Arc<str> = mesh.into();
    match change {
        EngineChange::Mesh { mesh, reachability, .. } => EngineChange::Mesh { name, mesh, reachability },
        EngineChange::Dataplane { key, dataplane } => EngineChange::Dataplane {
            key: ProxyKey::new(mesh, &key.name),
            dataplane: dataplane.map(|proxy| Arc::new(Proxy { mesh: name, ..(*proxy).clone() })),
        },
        EngineChange::Policy { key, policy, .. } => EngineChange::Policy {
            mesh: name.clone(),
            key,
            policy: policy.map(|policy| Arc::new(Policy { mesh: name, ..(*policy).clone() })),
        },
        other => panic!("{other:?} is not used"),
    }
}

#[test]
fn large_mesh_does_not_stall_another() {
    let mut world = mesh(Mode::Off);
    world.most = 2;
    let server = dataplane("y", &[inbound(80, "y", "http")], &[]);
    world.apply(in_mesh("other", mesh_change(MTLS, None)));
    world.apply(in_mesh("other", dataplane_change("y", Some(&server))));
    world.apply(EngineChange::Connected { key: ProxyKey::new("other", "y"), metadata: Arc::default() });
    world.policy("MeshTimeout", "all", Some(&timeout(7)));
    let other = world.apply(in_mesh("other", policy_change("MeshTimeout", "all", Some(&timeout(8)))));
    let meshes: Vec<&str> = other.proxies.iter().map(|updated| &*updated.key.mesh).collect();
    assert_eq!(meshes, ["default", "other"], "each mesh gets its share");
    assert!(world.engine.has_unfinished(), "of the large one alone");
}
