//! Every combination of targets, for every kind of destination.

use std::sync::Arc;

use jiff::Timestamp;
use kodiak_model::{Cancellation, Labels, ResourceKey};
use kodiak_world::Stored;
use serde_json::{Value, json};

use super::*;
use crate::{Answer, No, Yes};

const MESH: &str = "shop";

fn put(world: &mut World, key: &ResourceKey, labels: &Value, spec: &Value) {
    let labels: Labels = serde_json::from_value(labels.clone()).unwrap();
    world.put(Stored {
        key,
        labels: &Arc::new(labels),
        created: Timestamp::UNIX_EPOCH,
        version: 1,
        status_version: 1,
        revision: 1,
        spec: &spec.to_string().into(),
        status: None,
    });
}

/// Services `a` to `d` with one Dataplane each, `d` with a second one of version 2; MeshServices for `c` and for `far`,
/// which is in another zone; `both` selects these two; `bank` is outside.
fn mesh(strict: bool) -> World {
    let mut world = World::default();
    let mode = if strict { "STRICT" } else { "PERMISSIVE" };
    let mtls = json!({ "enabledBackend": "ca", "backends": [{ "name": "ca", "type": "builtin", "mode": mode }] });
    put(&mut world, &ResourceKey::global("Mesh", MESH), &json!({}), &json!({ "mtls": mtls }));
    for (name, service, version) in
        [("a-1", "a", "1"), ("b-1", "b", "1"), ("c-1", "c", "1"), ("d-1", "d", "1"), ("d-2", "d", "2")]
    {
        let tags = json!({ "kuma.io/service": service, "version": version, "team": format!("team-{service}") });
        let networking = json!({ "address": "10.0.0.1", "inbound": [{ "port": 80, "tags": tags }] });
        let labels = json!({ "app": service, "version": version });
        put(&mut world, &ResourceKey::in_mesh("Dataplane", MESH, name), &labels, &json!({ "networking": networking }));
    }
    let ports = json!([{ "port": 80, "targetPort": 80 }]);
    let service = |selector: &Value| json!({ "selector": selector, "ports": ports });
    let by_tags = service(&json!({ "dataplaneTags": { "kuma.io/service": "c" } }));
    put(&mut world, &ResourceKey::in_mesh("MeshService", MESH, "c"), &json!({ "team": "x" }), &by_tags);
    let elsewhere = json!({ "team": "x", "kuma.io/zone": "west", "kuma.io/origin": "global" });
    let by_tags = service(&json!({ "dataplaneTags": { "kuma.io/service": "far" } }));
    put(&mut world, &ResourceKey::in_mesh("MeshService", MESH, "far"), &elsewhere, &by_tags);
    let both = json!({ "selector": { "meshService": { "matchLabels": { "team": "x" } } }, "ports": [{ "port": 80 }] });
    put(&mut world, &ResourceKey::in_mesh("MeshMultiZoneService", MESH, "both"), &json!({}), &both);
    let bank = json!({ "match": { "type": "HostnameGenerator", "port": 443, "protocol": "tcp" } });
    put(&mut world, &ResourceKey::in_mesh("MeshExternalService", MESH, "bank"), &json!({}), &bank);
    world
}

fn permission(world: &mut World, name: &str, spec: &Value) {
    put(world, &ResourceKey::in_mesh("MeshTrafficPermission", MESH, name), &json!({}), spec);
}

fn from(top: &Value, caller: &Value, action: &str) -> Value {
    json!({ "targetRef": top, "from": [{ "targetRef": caller, "default": { "action": action } }] })
}

/// Destinations of a client: services by name, resources by kind and name.
fn reached(world: &World, client: &str) -> Vec<String> {
    let graph = MeshGraph::of(world, MESH, Purpose::Trimming, Shadow::Ignored, &Cancellation::never()).unwrap();
    let targets = graph.destinations(&client.into());
    targets.into_iter().map(text).collect()
}

fn text(target: &Target) -> String {
    match target {
        Target::Service(name) => name.to_string(),
        Target::Object(kri) => format!("{}/{}", kri.short, kri.name),
    }
}

fn kind(kind: &str) -> Value {
    json!({ "kind": kind })
}

fn service(name: &str) -> Value {
    json!({ "kind": "MeshService", "name": name })
}

/// Destinations that are for everybody: outside of the mesh, or in another zone.
const OPEN: [&str; 3] = ["extsvc/bank", "msvc/far", "mzsvc/both"];

/// `expected` are those of the mesh and of this zone.
#[track_caller]
fn check(spec: &Value, client: &str, expected: &[&str]) {
    let mut world = mesh(true);
    permission(&mut world, "one", spec);
    let (open, found): (Vec<String>, Vec<String>) =
        reached(&world, client).into_iter().partition(|name| OPEN.contains(&name.as_str()));
    assert_eq!(found, expected, "{client} with {spec}");
    assert_eq!(open, OPEN, "{client} with {spec}");
}

const ALL: [&str; 5] = ["a", "b", "c", "d", "msvc/c"];

#[test]
fn every_combination_of_targets() {
    check(&from(&kind("Mesh"), &kind("Mesh"), "Allow"), "a-1", &ALL);
    check(&from(&service("d"), &kind("Mesh"), "Allow"), "a-1", &["d"]);
    check(&from(&kind("Mesh"), &service("a"), "Allow"), "a-1", &ALL);
    check(&from(&kind("Mesh"), &service("a"), "Allow"), "b-1", &[]);
    check(&from(&service("c"), &service("a"), "Allow"), "a-1", &["c", "msvc/c"]);
    check(&from(&service("c"), &service("a"), "Allow"), "b-1", &[]);
    let part = json!({ "kind": "MeshServiceSubset", "name": "d", "tags": { "version": "2" } });
    check(&from(&part, &service("a"), "Allow"), "a-1", &["d"]);
    let caller = json!({ "kind": "MeshServiceSubset", "name": "d", "tags": { "version": "2" } });
    check(&from(&service("b"), &caller, "Allow"), "d-2", &["b"]);
    check(&from(&service("b"), &caller, "Allow"), "d-1", &[]);
    let team = json!({ "kind": "MeshSubset", "tags": { "team": "team-a" } });
    check(&from(&team, &team, "AllowWithShadowDeny"), "a-1", &["a"]);
    check(&from(&json!({ "kind": "Dataplane", "labels": { "app": "b" } }), &team, "Allow"), "a-1", &["b"]);
    check(&from(&json!({ "kind": "Dataplane", "labels": { "app": "b" } }), &team, "Allow"), "c-1", &[]);
}

/// Policies of this zone do not select its Dataplanes, and those that do may be unknown here.
#[test]
fn service_of_another_zone_is_open_whatever_the_policies_of_this_zone_say() {
    let far = json!({ "kind": "MeshSubset", "tags": { "kuma.io/service": "far" } });
    let zone = json!({ "kind": "MeshSubset", "tags": { "kuma.io/zone": "west" } });
    for (top, action) in [(far, "Deny"), (zone, "Deny"), (service("nothing"), "Allow")] {
        check(&from(&top, &service("a"), action), "a-1", &[]);
    }
    check(&from(&kind("Mesh"), &kind("Mesh"), "Deny"), "a-1", &[]);
}

#[test]
fn spiffe_ids_match_exactly_or_at_the_start() {
    let rules = |value: Value| json!({ "targetRef": service("d"), "rules": [{ "default": { "allow": [{ "spiffeID": value }] } }] });
    let exact = json!({ "type": "Exact", "value": format!("spiffe://{MESH}/a") });
    check(&rules(exact.clone()), "a-1", &["d"]);
    check(&rules(exact), "b-1", &[]);
    let prefix = json!({ "type": "Prefix", "value": format!("spiffe://{MESH}/") });
    check(&rules(prefix.clone()), "b-1", &["d"]);
    let mut denied = rules(prefix);
    denied["rules"][0]["default"]["deny"] =
        json!([{ "spiffeID": { "type": "Exact", "value": format!("spiffe://{MESH}/b") } }]);
    check(&denied, "a-1", &["d"]);
    check(&denied, "b-1", &[]);
}

#[test]
fn denial_removes_a_service_only_if_it_covers_all_of_it() {
    let mut world = mesh(true);
    permission(&mut world, "all", &from(&kind("Mesh"), &kind("Mesh"), "Allow"));
    let part = json!({ "kind": "MeshServiceSubset", "name": "d", "tags": { "version": "2" } });
    permission(&mut world, "part", &from(&part, &service("a"), "Deny"));
    assert!(reached(&world, "a-1").contains(&"d".to_owned()));
    permission(&mut world, "whole", &from(&service("d"), &service("a"), "Deny"));
    assert!(!reached(&world, "a-1").contains(&"d".to_owned()));
    assert!(reached(&world, "b-1").contains(&"d".to_owned()));
}

#[test]
fn verdict_has_its_reason() {
    let mut world = mesh(true);
    permission(&mut world, "d", &from(&service("d"), &service("a"), "Allow"));
    permission(&mut world, "c", &from(&service("c"), &service("a"), "Deny"));
    let graph = MeshGraph::of(&world, MESH, Purpose::Trimming, Shadow::Ignored, &Cancellation::never()).unwrap();
    let may = |client: &str, name: &str| graph.may(&client.into(), &Target::Service(name.into()));
    let policy = |name: &str| format!("kri_mtp_{MESH}___{name}_");
    assert_eq!(may("a-1", "d"), Answer::Yes(Yes::Allowed { policy: policy("d") }));
    assert_eq!(may("a-1", "c"), Answer::No(No::Denied { policy: policy("c") }));
    assert_eq!(may("b-1", "d"), Answer::No(No::NotAllowed));
    assert_eq!(may("b-1", "nowhere"), Answer::Yes(Yes::Unknown));
}

#[test]
fn everything_is_reachable_unless_permissions_are_enforced() {
    let world = mesh(false);
    assert_eq!(reached(&world, "a-1").len(), ALL.len() + OPEN.len());
    let graph = MeshGraph::of(&world, MESH, Purpose::Trimming, Shadow::Ignored, &Cancellation::never()).unwrap();
    assert_eq!(graph.may(&"a-1".into(), &Target::Service("d".into())), Answer::Yes(Yes::Open));
    assert_eq!(reached(&mesh(true), "a-1"), OPEN);
}
