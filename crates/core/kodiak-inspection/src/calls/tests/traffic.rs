//! Answers that join permissions with observed traffic.

use jiff::Timestamp;
use kodiak_model::Cancellation;
use kodiak_reachability::Mode;
use kodiak_traffic::{ClientId, ObservedEdge, ObservedTraffic};
use kodiak_world::World;
use serde_json::json;

use super::{MESH, allow, calls, dataplane, deny, mesh, only, policy, put};
use crate::calls::{
    Consumer, Consumers, Exempt, LostReason, ModeOrigin, Names, PermissionCheck, with_shadow_denials, with_strict_mtls,
};

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn traffic(edges: &[(&str, &str, u64)]) -> ObservedTraffic {
    let edge = |(client, destination, requests): &(&str, &str, u64)| ObservedEdge {
        client: ClientId::from(*client),
        destination: (*destination).to_owned(),
        requests: *requests,
        failed: 0,
        first_seen: at(1),
        last_seen: at(2),
    };
    let edges = edges.iter().map(edge).collect();
    ObservedTraffic { window: Some((at(0), at(3))), edges, ..ObservedTraffic::default() }
}

fn check(before: Option<&World>, after: &World, edges: &[(&str, &str, u64)]) -> PermissionCheck {
    PermissionCheck::of(after, before.map(calls).as_ref(), &calls(after), &traffic(edges), &Cancellation::never())
        .unwrap()
}

/// Client, destination, requests, and whether the change denies it.
fn denied(check: &PermissionCheck) -> Vec<(&str, &str, u64, bool)> {
    let observed = check.observed.iter();
    observed.map(|one| (one.client.as_str(), one.destination.as_str(), one.requests, one.lost)).collect()
}

#[test]
fn observed_callers_that_lose_access_come_first() {
    let mut before = mesh(&["a", "b", "c"]);
    allow(&mut before, "to-b", Some("b"), &["a", "c"]);
    let mut after = before.clone();
    deny(&mut after, "a-not-c", "b", "c");
    deny(&mut after, "a-not-a", "b", "a");
    let found = check(Some(&before), &after, &[("a", "b", 3), ("c", "b", 7), ("a", "c", 5), ("b", "nothing", 9)]);
    assert_eq!(denied(&found), [("c", "b", 7, true), ("a", "c", 5, false), ("a", "b", 3, true)]);
    assert_eq!(found.observed[0].reason, LostReason::Denied { policy: policy("a-not-c") });
    assert_eq!(found.observed[1].reason, LostReason::NotAllowed);
    assert!(found.loses_traffic() && found.enforced);
    assert_eq!(found.lost.len(), 2);
    assert_eq!((found.since, found.until), (Some(at(0)), Some(at(3))));
}

#[test]
fn loss_without_traffic_is_no_loss_of_traffic() {
    let mut before = mesh(&["a", "b"]);
    allow(&mut before, "all", None, &[]);
    let mut after = before.clone();
    deny(&mut after, "a-not-a", "b", "a");
    for edges in [&[][..], &[("b", "a", 4)], &[("a", "b", 0)]] {
        let found = check(Some(&before), &after, edges);
        assert!(!found.loses_traffic() && found.observed.is_empty());
        assert_eq!(found.lost.len(), 1);
    }
}

#[test]
fn without_a_change_every_denied_call_counts() {
    let world = mesh(&["a", "b"]);
    let found = check(None, &world, &[("a", "b", 4)]);
    assert_eq!(denied(&found), [("a", "b", 4, true)]);
    assert!(found.lost.is_empty() && found.loses_traffic());
}

#[test]
fn permissions_can_be_checked_before_they_are_enforced() {
    let mut world = mesh(&["a", "b"]);
    put(&mut world, "Mesh", MESH, &json!({}), &json!({}));
    let edges = [("a", "b", 4)];
    let open = check(None, &world, &edges);
    assert!(!open.loses_traffic() && !open.enforced);
    let strict = with_strict_mtls(&world, MESH);
    assert!(check(None, &strict, &edges).loses_traffic());
    allow(&mut world, "to-b", Some("b"), &["a"]);
    assert!(!check(None, &with_strict_mtls(&world, MESH), &edges).loses_traffic());

    // Also with a permissive backend, in the middle of a rollout.
    let backends = json!([{ "name": "ca", "type": "builtin", "mode": "PERMISSIVE" }]);
    let spec = json!({ "mtls": { "enabledBackend": "ca", "backends": backends } });
    put(&mut world, "Mesh", MESH, &json!({}), &spec);
    put(&mut world, "Config", "mtls-rollout", &json!({}), &json!({ "accept": "both", "call": false }));
    deny(&mut world, "a-not-a", "b", "a");
    assert!(!check(None, &world, &edges).loses_traffic());
    assert!(check(None, &with_strict_mtls(&world, MESH), &edges).loses_traffic());
}

fn consumer(world: &World, name: &str, setting: Mode, edges: &[(&str, &str, u64)]) -> Consumer {
    let (calls, traffic) = (calls(world), traffic(edges));
    let consumers = Consumers::of(world, &calls, setting, &traffic.edges, &Cancellation::never()).unwrap();
    consumers.consumer(world.proxies(MESH).find(|proxy| *proxy.name == *name).unwrap())
}

#[test]
fn report_shows_what_would_be_trimmed_and_carried_traffic() {
    let mut world = mesh(&["a", "b", "c", "d"]);
    allow(&mut world, "to-b", Some("b"), &["a"]);
    let found = consumer(&world, "a-1", Mode::Shadow, &[("a", "b", 9), ("a", "c", 2), ("b", "d", 1)]);
    assert_eq!((found.mode.as_str(), found.source, found.exempt), ("shadow", ModeOrigin::Setting, None));
    assert_eq!((found.configured, found.callable, found.trimmed), (4, 1, 3));
    assert_eq!(found.trimmed_destinations, Names::AllExcept(vec!["b".to_owned()]));
    let used: Vec<(&str, u64)> = found.used.iter().map(|used| (used.destination.as_str(), used.requests)).collect();
    assert_eq!(used, [("c", 2)]);
}

#[test]
fn outbounds_and_open_meshes_are_exempt_and_lists_are_not() {
    let mut world = mesh(&["a", "b"]);
    let lists = |lists: serde_json::Value| {
        let inbound = json!([{ "port": 80, "tags": { "kuma.io/service": "a" } }]);
        json!({ "networking": { "address": "10.0.0.1", "inbound": inbound, "transparentProxying": lists } })
    };
    let listed = lists(json!({ "redirectPortOutbound": 15001, "reachableBackends": {} }));
    put(&mut world, "Dataplane", "a-1", &json!({}), &listed);
    let found = consumer(&world, "a-1", Mode::On, &[]);
    assert_eq!((found.exempt, found.configured, found.trimmed), (None, 2, 2), "the list is of objects");
    let mut listing = lists(json!({}));
    listing["networking"]["outbound"] = json!([{ "port": 9000, "tags": { "kuma.io/service": "b" } }]);
    put(&mut world, "Dataplane", "a-1", &json!({ "kodiak.io/reachability": "off" }), &listing);
    let found = consumer(&world, "a-1", Mode::On, &[]);
    assert_eq!(
        (found.exempt, found.configured, found.source),
        (Some(Exempt::NotTransparent), 1, ModeOrigin::Dataplane)
    );
    put(&mut world, "Mesh", MESH, &json!({ "kodiak.io/reachability": "on" }), &json!({}));
    dataplane(&mut world, "a-1", "a");
    let found = consumer(&world, "a-1", Mode::Off, &[]);
    assert_eq!((found.exempt, found.mode.as_str()), (Some(Exempt::NotEnforced), "on"));
    assert_eq!(found.source, ModeOrigin::Mesh);
}

#[test]
fn destination_with_a_route_is_not_trimmed() {
    let mut world = mesh(&["a", "b", "c"]);
    allow(&mut world, "to-b", Some("b"), &["a"]);
    let backends = json!([{ "kind": "MeshService", "name": "b", "weight": 1 }]);
    let rules = json!([{ "default": { "backendRefs": backends } }]);
    let to = json!([{ "targetRef": { "kind": "MeshService", "name": "c" }, "rules": rules }]);
    put(&mut world, "MeshTCPRoute", "c-is-b", &json!({}), &json!({ "targetRef": { "kind": "Mesh" }, "to": to }));
    let found = consumer(&world, "a-1", Mode::On, &[]);
    assert_eq!(found.trimmed_destinations, only(&["a"]));
    assert_eq!((found.configured, found.callable, found.trimmed), (3, 1, 1));
}

#[test]
fn shadow_denial_may_count_as_a_denial() {
    let mut world = mesh(&["a", "b", "c"]);
    allow(&mut world, "to-b", Some("b"), &["a"]);
    let action = json!({ "action": "AllowWithShadowDeny" });
    let everybody = json!([{ "targetRef": { "kind": "Mesh" }, "default": action }]);
    let all = json!({ "targetRef": { "kind": "Mesh" }, "from": everybody });
    put(&mut world, "MeshTrafficPermission", "everybody", &json!({}), &all);
    assert_eq!(consumer(&world, "a-1", Mode::Shadow, &[]).trimmed, 0);
    let denying = with_shadow_denials(&world, MESH);
    let trimmed = consumer(&denying, "a-1", Mode::Shadow, &[]).trimmed_destinations;
    assert_eq!(trimmed, Names::AllExcept(vec!["b".to_owned()]));
    let id = |name: &str| json!({ "spiffeID": { "type": "Exact", "value": format!("spiffe://default/{name}") } });
    let conf = json!({ "allow": [id("b")], "allowWithShadowDeny": [id("a")] });
    let rules = json!({ "targetRef": { "kind": "Mesh" }, "rules": [{ "default": conf }] });
    put(&mut world, "MeshTrafficPermission", "everybody", &json!({}), &rules);
    put(&mut world, "MeshTrafficPermission", "to-b", &json!({}), &rules);
    let denying = with_shadow_denials(&world, MESH);
    let trimmed = |world: &World, name: &str| consumer(world, name, Mode::Shadow, &[]).trimmed;
    assert_eq!((trimmed(&world, "a-1"), trimmed(&denying, "a-1"), trimmed(&denying, "b-1")), (0, 3, 0));
}
