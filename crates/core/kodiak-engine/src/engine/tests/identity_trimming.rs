//! Trimming with each kind of certificate issuer, and at each step of a migration between issuers.

use std::sync::Arc;

use kodiak_reachability::Mode;
use kodiak_rollout::{AppliedIdentity, AppliedProvider, DesiredIdentities, Rollout, Selector};
use kodiak_rules::Proxy;
use kodiak_xds::node::NodeMetadata;
use kodiak_xds_stream::TypeUrl;
use serde_json::{Value, json};

use super::{
    names,
    world::{World, inbound, key},
};
use crate::EngineChange;

const PROXIES: [&str; 4] = ["a", "b", "x", "y"];

fn backend(mode: Option<&str>) -> String {
    let backends = |mode: &str| json!([{ "name": "ca", "type": "builtin", "mode": mode }]);
    let mtls = mode.map(|mode| json!({ "enabledBackend": "ca", "backends": backends(mode) }));
    json!({ "mtls": mtls }).to_string()
}

/// Selects the proxies with the label `certified`.
fn identity() -> DesiredIdentities {
    let identity = AppliedIdentity {
        name: "identity".into(),
        kri: "kri_mid_default___identity_".into(),
        selector: Selector([("certified".to_owned(), "yes".to_owned())].into()),
        trust_domain: "td".into(),
        path: Some("/{{ label \"app\" }}".into()),
        provider: Some(AppliedProvider::Bundled { ca: "ca".into(), seconds: 60 }),
    };
    let mut desired = DesiredIdentities { identities: vec![Arc::new(identity)], ..DesiredIdentities::default() };
    desired.trust("td".into(), ["root of td\n".into()]);
    desired
}

fn dataplane(world: &mut World, name: &str, certified: bool) {
    let last = PROXIES.iter().position(|other| *other == name).unwrap();
    let spec = json!({ "networking": {
        "address": format!("10.0.0.{last}"), "inbound": [inbound(80, name, "http")],
        "transparentProxying": { "redirectPortInbound": 15006, "redirectPortOutbound": 15001 },
    } });
    let labels = [("app", name), ("certified", if certified { "yes" } else { "no" })];
    let proxy = Proxy {
        mesh: "default".into(),
        name: name.into(),
        labels: Arc::new(labels.map(|(key, value)| (key.to_owned(), value.to_owned())).into()),
        dataplane: Arc::new(serde_json::from_value(spec).unwrap()),
        admission: None,
    };
    world.apply(EngineChange::Dataplane { key: key(name), dataplane: Some(Arc::new(proxy)) });
}

/// `x` allows `a` by the SPIFFE ID of every issuer; nobody else is allowed anything.
fn mesh(spec: &str, identities: DesiredIdentities) -> World {
    let mut world = World::new(Mode::On);
    world.mesh(spec);
    world.identities = identities;
    for name in PROXIES {
        dataplane(&mut world, name, true);
        world.connect_as(name, NodeMetadata::default());
    }
    world.assign_vips();
    let exact = |id: &str| json!({ "spiffeID": { "type": "Exact", "value": id } });
    let allow: Vec<Value> = ["spiffe://default/a", "spiffe://td/a"].map(exact).into();
    let target = json!({ "kind": "MeshService", "name": "x" });
    world.permission(
        "x",
        Some(&json!({ "targetRef": target, "rules": [{ "default": { "allow": allow } }] }).to_string()),
    );
    world.rollout(Some(Rollout::default()));
    roll_out(&mut world, |_| ());
    world
}

/// Takes all steps to the target.
fn roll_out(world: &mut World, check: impl Fn(&World)) {
    while let Some(next) = world.next_rollout() {
        world.rollout(Some(next));
        check(world);
        world.acknowledge();
        check(world);
    }
}

fn called(world: &World, proxy: &str) -> Vec<String> {
    let clusters = names(world, proxy, TypeUrl::Cluster);
    clusters.into_iter().filter(|name| PROXIES.contains(&name.as_str())).collect()
}

#[track_caller]
fn is_trimmed(world: &World) {
    let token = world.current_rollout().unwrap().token();
    assert_eq!((called(world, "a"), called(world, "b")), (vec!["x".to_owned()], vec![]), "{token}");
}

#[test]
fn mesh_with_mesh_identities_alone_is_trimmed() {
    is_trimmed(&mesh(&backend(None), identity()));
}

#[test]
fn migration_to_mesh_identities_trims_the_same_at_each_step() {
    let mut world = mesh(&backend(Some("STRICT")), DesiredIdentities::default());
    is_trimmed(&world);
    world.identities = identity();
    roll_out(&mut world, is_trimmed);
    world.mesh(&backend(None));
    roll_out(&mut world, is_trimmed);
    // And back.
    world.mesh(&backend(Some("STRICT")));
    roll_out(&mut world, is_trimmed);
    world.identities = DesiredIdentities::default();
    roll_out(&mut world, is_trimmed);
}

#[test]
fn mesh_identity_makes_servers_of_a_permissive_mesh_strict_and_they_are_trimmed() {
    let mut world = mesh(&backend(Some("PERMISSIVE")), DesiredIdentities::default());
    assert_eq!(called(&world, "b").len(), PROXIES.len());
    world.identities = identity();
    roll_out(&mut world, |_| ());
    is_trimmed(&world);
    // A server without a certificate of the MeshIdentity accepts plain text.
    dataplane(&mut world, "y", false);
    world.acknowledge();
    assert_eq!((called(&world, "a"), called(&world, "b")), (vec!["x".into(), "y".into()], vec!["y".to_owned()]));
}

#[test]
fn server_that_nobody_can_call_is_no_reason_to_keep_its_service() {
    let mut world = mesh(&backend(None), identity());
    dataplane(&mut world, "y", false);
    world.acknowledge();
    is_trimmed(&world);
}
