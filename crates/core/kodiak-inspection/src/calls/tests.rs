//! Edges and losses of hand-made meshes.

mod traffic;

use std::sync::Arc;

use jiff::Timestamp;
use kodiak_model::{Cancellation, Labels, ResourceKey};
use kodiak_rules::Shadow;
use kodiak_world::{Stored, World};
use serde_json::{Value, json};

use super::{CallGraph, Calls, Edge, EdgeReason, LostCall, LostCalls, LostReason, Names};

pub(crate) const MESH: &str = "default";

pub(crate) fn put(world: &mut World, kind: &str, name: &str, labels: &Value, spec: &Value) {
    put_with_status(world, kind, name, labels, spec, None);
}

pub(crate) fn put_with_status(
    world: &mut World,
    kind: &str,
    name: &str,
    labels: &Value,
    spec: &Value,
    status: Option<&Value>,
) {
    let key = if kind == "Mesh" { ResourceKey::global(kind, name) } else { ResourceKey::in_mesh(kind, MESH, name) };
    let version = world.get(&key).map_or(1, |old| old.version + 1);
    let labels: Labels = serde_json::from_value(labels.clone()).unwrap();
    let stored = world.put(Stored {
        key: &key,
        labels: &Arc::new(labels),
        created: Timestamp::UNIX_EPOCH,
        version,
        status_version: 1,
        revision: version,
        spec: &spec.to_string().into(),
        status: status.map(|status| status.to_string().into()).as_ref(),
    });
    assert!(stored.unreadable().is_none(), "{kind} {name}: {:?}", stored.unreadable());
}

/// A mesh with mutual TLS, and a Dataplane `<service>-1` for each service.
pub(crate) fn mesh(services: &[&str]) -> World {
    let mut world = World::default();
    let mtls = json!({ "enabledBackend": "ca", "backends": [{ "name": "ca", "type": "builtin" }] });
    put(&mut world, "Mesh", MESH, &json!({}), &json!({ "mtls": mtls }));
    for service in services {
        dataplane(&mut world, &format!("{service}-1"), service);
    }
    world
}

pub(crate) fn dataplane(world: &mut World, name: &str, service: &str) {
    let inbound = json!({ "port": 80, "tags": { "kuma.io/service": service } });
    let networking = json!({
        "address": "10.0.0.1",
        "inbound": [inbound],
        "transparentProxying": { "redirectPortOutbound": 15001 },
    });
    put(world, "Dataplane", name, &json!({}), &json!({ "networking": networking }));
}

/// Allows `callers` to call `service`. Without callers, all of them; without a service, all of them.
pub(crate) fn allow(world: &mut World, name: &str, service: Option<&str>, callers: &[&str]) {
    let from: Vec<Value> = if callers.is_empty() {
        vec![json!({ "targetRef": { "kind": "Mesh" }, "default": { "action": "Allow" } })]
    } else {
        let item = |caller: &&str| json!({ "targetRef": { "kind": "MeshService", "name": caller }, "default": { "action": "Allow" } });
        callers.iter().map(item).collect()
    };
    let target = match service {
        Some(service) => json!({ "kind": "MeshSubset", "tags": { "kuma.io/service": service } }),
        None => json!({ "kind": "Mesh" }),
    };
    put(world, "MeshTrafficPermission", name, &json!({}), &json!({ "targetRef": target, "from": from }));
}

pub(crate) fn deny(world: &mut World, name: &str, service: &str, caller: &str) {
    let from = json!([{ "targetRef": { "kind": "MeshService", "name": caller }, "default": { "action": "Deny" } }]);
    let target = json!({ "kind": "MeshSubset", "tags": { "kuma.io/service": service } });
    put(world, "MeshTrafficPermission", name, &json!({}), &json!({ "targetRef": target, "from": from }));
}

fn calls(world: &World) -> Calls {
    Calls::of(world, MESH, Shadow::Ignored, &Cancellation::never()).unwrap()
}

fn edges(world: &World) -> Vec<Edge> {
    CallGraph::of(&calls(world), None, None, &Cancellation::never()).unwrap().edges
}

fn only(names: &[&str]) -> Names {
    Names::Only(names.iter().map(|name| (*name).to_owned()).collect())
}

fn policy(name: &str) -> String {
    format!("kri_mtp_default___{name}_")
}

fn allowed(clients: Names, destinations: Names, name: &str) -> Edge {
    Edge { clients, destinations, reason: EdgeReason::Allowed { policy: policy(name) } }
}

#[test]
fn rule_for_the_whole_mesh_is_one_edge() {
    let services: Vec<String> = (0..1000).map(|n| format!("service-{n:03}")).collect();
    let services: Vec<&str> = services.iter().map(String::as_str).collect();
    let mut world = mesh(&services);
    allow(&mut world, "all", None, &[]);
    assert_eq!(edges(&world), [allowed(Names::All, Names::All, "all")]);
    deny(&mut world, "not-seven", "service-007", "service-008");
    let edges = edges(&world);
    assert_eq!(edges.len(), 2, "{edges:#?}");
    assert!(edges.contains(&allowed(Names::All, Names::AllExcept(vec!["service-007".to_owned()]), "all")));
    assert!(edges.contains(&allowed(Names::AllExcept(vec!["service-008".to_owned()]), only(&["service-007"]), "all")));
}

#[test]
fn each_permission_is_an_edge_with_its_policy() {
    let mut world = mesh(&["a", "b", "c", "d"]);
    allow(&mut world, "to-d", Some("d"), &["a", "b"]);
    allow(&mut world, "to-a", Some("a"), &[]);
    let expected = [allowed(Names::All, only(&["a"]), "to-a"), allowed(only(&["a", "b"]), only(&["d"]), "to-d")];
    assert_eq!(edges(&world), expected);
}

#[test]
fn without_mutual_tls_everything_is_open() {
    let mut world = mesh(&["a", "b"]);
    put(&mut world, "Mesh", MESH, &json!({}), &json!({}));
    let open = Edge { clients: Names::All, destinations: Names::All, reason: EdgeReason::Open };
    assert_eq!(edges(&world), [open]);
}

#[test]
fn dataplanes_of_a_service_with_different_rights_are_named() {
    let mut world = mesh(&["a", "b", "c"]);
    dataplane(&mut world, "a-2", "a");
    let inbound = json!({ "port": 80, "tags": { "kuma.io/service": "a", "version": "2" } });
    put(
        &mut world,
        "Dataplane",
        "a-2",
        &json!({}),
        &json!({ "networking": { "address": "10.0.0.2", "inbound": [inbound] } }),
    );
    let from = json!([{
        "targetRef": { "kind": "MeshSubset", "tags": { "version": "2" } }, "default": { "action": "Allow" },
    }]);
    let target = json!({ "kind": "MeshSubset", "tags": { "kuma.io/service": "b" } });
    put(&mut world, "MeshTrafficPermission", "v2", &json!({}), &json!({ "targetRef": target, "from": from }));
    assert_eq!(edges(&world), [allowed(only(&["a/a-2"]), only(&["b"]), "v2")]);
}

#[test]
fn graph_is_restricted_to_a_client_and_a_destination() {
    let mut world = mesh(&["a", "b", "c"]);
    allow(&mut world, "to-a", Some("a"), &[]);
    allow(&mut world, "to-b", Some("b"), &["a"]);
    let calls = calls(&world);
    let of = |client, destination| CallGraph::of(&calls, client, destination, &Cancellation::never()).unwrap().edges;
    let (to_a, to_b) = (allowed(only(&["c"]), only(&["a"]), "to-a"), allowed(only(&["a"]), only(&["b"]), "to-b"));
    assert_eq!(of(Some("c"), None), [to_a]);
    assert_eq!(of(Some("a-1"), Some("b")), [to_b]);
    assert_eq!(of(Some("c"), Some("b")), []);
    let refused = |client, destination| {
        CallGraph::of(&calls, client, destination, &Cancellation::never()).unwrap_err().to_string()
    };
    let unknown = refused(Some("a-11"), None);
    assert!(unknown.starts_with(r#"there is no Dataplane and no service "a-11"; did you mean a-1 or"#), "{unknown}");
    assert_eq!(refused(None, Some("nothing")), r#"there is no destination "nothing""#);
}

#[test]
fn services_by_tags_are_no_destinations_in_mode_exclusive() {
    let mut world = mesh(&["a"]);
    let mtls = json!({ "enabledBackend": "ca", "backends": [{ "name": "ca", "type": "builtin" }] });
    let spec = json!({ "mtls": mtls, "meshServices": { "mode": "Exclusive" } });
    put(&mut world, "Mesh", MESH, &json!({}), &spec);
    let service = json!({
        "selector": { "dataplaneTags": { "kuma.io/service": "a" } },
        "ports": [{ "port": 80, "targetPort": 80, "appProtocol": "http" }],
    });
    put(&mut world, "MeshService", "a", &json!({}), &service);
    allow(&mut world, "all", None, &[]);
    let graph = CallGraph::of(&calls(&world), None, None, &Cancellation::never()).unwrap();
    assert_eq!((graph.clients, graph.destinations), (1, 1));
    assert_eq!(CallGraph::of(&calls(&world), None, Some("a"), &Cancellation::never()).unwrap().edges, graph.edges);
}

#[test]
fn lost_calls_have_their_rule() {
    let mut before = mesh(&["a", "b", "c"]);
    allow(&mut before, "all", None, &[]);
    let mut after = before.clone();
    assert_eq!(LostCalls::between(&calls(&before), &calls(&after), &Cancellation::never()).unwrap().calls, []);
    deny(&mut after, "not-a", "b", "a");
    let lost = LostCalls::between(&calls(&before), &calls(&after), &Cancellation::never()).unwrap().calls;
    let denied = |name: &str| LostReason::Denied { policy: policy(name) };
    let expected = LostCall { clients: only(&["a"]), destinations: only(&["b"]), reason: denied("not-a") };
    assert_eq!(lost, [expected]);
    // And nothing is lost on the way back.
    assert_eq!(LostCalls::between(&calls(&after), &calls(&before), &Cancellation::never()).unwrap().calls, []);
}

#[test]
fn removed_permission_loses_all_callers_in_one_line() {
    let services: Vec<String> = (0..300).map(|n| format!("service-{n:03}")).collect();
    let services: Vec<&str> = services.iter().map(String::as_str).collect();
    let mut before = mesh(&services);
    allow(&mut before, "all", None, &[]);
    let mut after = mesh(&services);
    allow(&mut after, "one", Some("service-001"), &["service-002"]);
    let lost = LostCalls::between(&calls(&before), &calls(&after), &Cancellation::never()).unwrap().calls;
    let not_allowed = |clients, destinations| LostCall { clients, destinations, reason: LostReason::NotAllowed };
    let one = |name: &str| Names::AllExcept(vec![name.to_owned()]);
    assert_eq!(
        lost,
        [not_allowed(Names::All, one("service-001")), not_allowed(one("service-002"), only(&["service-001"]))]
    );
}
