//! Proxies that get only the destinations that they may call.

use std::sync::Arc;

use jiff::SignedDuration;
use kodiak_reachability::{LABEL, Mode};
use kodiak_rollout::{AppliedIdentity, AppliedProvider, Issuers, Rollout};
use kodiak_rules::Proxy;
use kodiak_xds_stream::TypeUrl;
use serde_json::{Value, json};

use super::{
    names,
    world::{World, dataplane, inbound, key},
};
use crate::{EngineChange, Stats};

const MTLS: &str = r#"{ "mtls": { "enabledBackend": "ca", "backends": [{ "name": "ca", "type": "builtin" }] } }"#;
const PERMISSIVE: &str = r#"{ "mtls": { "enabledBackend": "ca", "backends": [{ "name": "ca", "type": "builtin", "mode": "PERMISSIVE" }] } }"#;

/// Redirected proxies of the services `a` and `b`, and connected servers `x`, `y` and `z`, which allow nobody.
fn mesh(mode: Mode) -> World {
    let mut world = World::new(mode);
    world.mesh(MTLS);
    for name in ["x", "y", "z"] {
        world.dataplane(name, dataplane(name, &[inbound(80, name, "http")], &[]));
        world.connect(name);
    }
    for name in ["a", "b"] {
        world.redirected(name, &[]);
    }
    world.assign_vips();
    world.acknowledge();
    world
}

fn allow(server: &str, callers: &[&str]) -> String {
    let from = |caller: &&str| json!({ "targetRef": service(caller), "default": { "action": "Allow" } });
    json!({ "targetRef": service(server), "from": callers.iter().map(from).collect::<Vec<_>>() }).to_string()
}

fn service(name: &str) -> Value {
    json!({ "kind": "MeshService", "name": name })
}

/// Servers for which a proxy has a cluster.
fn called(world: &World, proxy: &str) -> Vec<String> {
    let clusters = names(world, proxy, TypeUrl::Cluster);
    clusters.into_iter().filter(|name| ["a", "b", "x", "y", "z"].contains(&name.as_str())).collect()
}

#[test]
fn proxy_gets_the_destinations_that_allow_it() {
    let mut world = mesh(Mode::On);
    assert_eq!(called(&world, "a"), [""; 0]);
    world.permission("x", Some(&allow("x", &["a"])));
    world.permission("y", Some(&allow("y", &["a", "b"])));
    world.acknowledge();
    assert_eq!(called(&world, "a"), ["x", "y"]);
    assert_eq!(called(&world, "b"), ["y"]);
    let outbounds = |proxy: &str| {
        let listeners = names(&world, proxy, TypeUrl::Listener);
        listeners.iter().filter(|name| name.starts_with("outbound:240.")).count()
    };
    assert_eq!((outbounds("a"), outbounds("b")), (2, 1));
    world.permission("y", None);
    world.acknowledge();
    assert_eq!((called(&world, "a"), called(&world, "b")), (vec!["x".to_owned()], vec![]));
}

#[test]
fn destinations_stay_while_servers_accept_plain_text() {
    for (mode, spec, everything) in [
        (Mode::Off, MTLS, true),
        (Mode::Shadow, MTLS, true),
        (Mode::On, "{}", true),
        (Mode::On, PERMISSIVE, true),
        (Mode::On, MTLS, false),
    ] {
        let mut world = mesh(mode);
        world.mesh(spec);
        world.acknowledge();
        let expected = if everything { vec!["a", "b", "x", "y", "z"] } else { vec![] };
        assert_eq!(called(&world, "a"), expected, "{mode} {spec}");
    }
}

#[test]
fn labels_override_the_setting() {
    let mut world = mesh(Mode::Off);
    world.reachability(Some(Mode::On));
    assert_eq!(called(&world, "a").len(), 5, "nobody knows what servers enforce");
    world.acknowledge();
    assert_eq!(called(&world, "a"), [""; 0]);
    world.reachability(Some(Mode::Shadow));
    assert_eq!(called(&world, "a").len(), 5);
    let spec = json!({ "networking": { "address": "10.0.0.7", "inbound": [inbound(80, "a", "http")],
        "transparentProxying": { "redirectPortInbound": 15006, "redirectPortOutbound": 15001 } } });
    let labelled = |mode: &str| EngineChange::Dataplane {
        key: key("a"),
        dataplane: Some(Arc::new(Proxy {
            mesh: "default".into(),
            name: "a".into(),
            labels: Arc::new([(LABEL.to_owned(), mode.to_owned())].into()),
            dataplane: Arc::new(serde_json::from_value(spec.clone()).unwrap()),
            admission: None,
        })),
    };
    world.apply(labelled("on"));
    world.acknowledge();
    assert_eq!((called(&world, "a").len(), called(&world, "b").len()), (0, 5));
    world.reachability(Some(Mode::On));
    world.apply(labelled("off"));
    world.acknowledge();
    assert_eq!((called(&world, "a").len(), called(&world, "b").len()), (5, 0));
}

#[test]
fn routed_destination_follows_the_permissions_of_its_backends() {
    let mut world = mesh(Mode::On);
    let rule = json!({ "default": { "backendRefs": [{ "kind": "MeshService", "name": "y", "weight": 1 }] } });
    let to = json!([{ "targetRef": service("x"), "rules": [rule] }]);
    world.policy("MeshTCPRoute", "route", Some(&json!({ "targetRef": service("a"), "to": to }).to_string()));
    assert_eq!(called(&world, "a"), [""; 0]);
    world.permission("y", Some(&allow("y", &["a"])));
    world.acknowledge();
    assert_eq!(called(&world, "a"), ["x", "y"]);
    assert_eq!(called(&world, "b"), [""; 0]);
    // A permission of the destination itself does not help: nothing gets there.
    world.permission("y", None);
    world.permission("x", Some(&allow("x", &["a"])));
    world.acknowledge();
    assert_eq!(called(&world, "a"), [""; 0]);
    world.policy("MeshTCPRoute", "route", None);
    assert_eq!(called(&world, "a"), ["x"]);
}

#[test]
fn permission_updates_the_server_and_then_its_callers() {
    let mut world = mesh(Mode::On);
    let server = world.permission("x", Some(&allow("x", &["a"])));
    assert_eq!(server.proxies.iter().map(|each| &*each.key.name).collect::<Vec<_>>(), ["x"]);
    assert_eq!(called(&world, "a"), [""; 0], "the server has not acknowledged");
    assert!(world.acknowledge_of("y").is_none(), "the permission is not about it");
    let client = world.acknowledge_of("x").unwrap();
    assert_eq!(client.proxies.iter().map(|each| &*each.key.name).collect::<Vec<_>>(), ["a"]);
    assert_eq!(called(&world, "a"), ["x"]);
    // The other way round, it is removed after the server denies it.
    let denied = world.permission("x", None);
    assert_eq!(denied.proxies.iter().map(|each| &*each.key.name).collect::<Vec<_>>(), ["x"]);
    assert_eq!(called(&world, "a"), ["x"]);
    world.acknowledge();
    assert_eq!(called(&world, "a"), [""; 0]);
}

#[test]
fn server_that_never_acknowledges_holds_up_removals_alone() {
    let mut world = mesh(Mode::On);
    world.permission("x", Some(&allow("x", &["a"])));
    world.acknowledge();
    world.permission("x", Some(&allow("x", &["b"])));
    world.apply(EngineChange::Tick);
    assert_eq!((called(&world, "a").len(), called(&world, "b").len()), (1, 0));
    world.now += SignedDuration::from_secs(30);
    world.apply(EngineChange::Tick);
    assert_eq!((called(&world, "a").len(), called(&world, "b").len()), (1, 1));
    world.disconnect("x");
    assert_eq!((called(&world, "a").len(), called(&world, "b").len()), (1, 1), "it may still serve");
    world.pass_absence();
    assert_eq!((called(&world, "a").len(), called(&world, "b").len()), (0, 1));
}

#[test]
fn change_costs_the_clients_that_it_affects() {
    let mut world = mesh(Mode::On);
    for n in 0..20 {
        world.redirected(&format!("front-{n}"), &[]);
    }
    world.assign_vips();
    world.permission("x", Some(&allow("x", &["front-7"])));
    let granted = world.acknowledge_of("x").unwrap();
    // Its listener, its cluster and its endpoints, and the secret of the cluster.
    assert_eq!(granted.stats, Stats { encoded: 4, woken: 1 });
    let endpoint = world.dataplane("x-2", dataplane("x-2", &[inbound(80, "x", "http")], &[]));
    assert_eq!(endpoint.stats, Stats { encoded: 1, woken: 1 });
    let unrelated = world.dataplane("y-2", dataplane("y-2", &[inbound(80, "y", "http")], &[]));
    assert_eq!(unrelated.stats, Stats::default());
}

#[test]
fn connected_proxy_gets_its_destinations_with_its_first_configuration() {
    let mut world = mesh(Mode::On);
    world.permission("x", Some(&allow("x", &["c"])));
    world.acknowledge();
    world.redirected("c", &[]);
    assert_eq!(called(&world, "c"), ["x"]);
}

#[test]
fn certificate_of_the_issuers_before_or_after_counts() {
    let mut world = mesh(Mode::On);
    let id = json!({ "spiffeID": { "type": "Exact", "value": "spiffe://td/sa/a" } });
    let rules = json!({ "targetRef": service("x"), "rules": [{ "default": { "allow": [id] } }] });
    world.permission("x", Some(&rules.to_string()));
    world.acknowledge();
    assert_eq!(called(&world, "a"), [""; 0]);
    let target = world.target();
    let issuers = Issuers { identities: vec![Arc::new(identity("/sa/a"))], ..target.issuers.clone() };
    world.rollout(Some(Rollout { other_issuers: Some(issuers), ..target.clone() }));
    assert_eq!(called(&world, "a"), ["x"]);
    world.rollout(Some(target));
    assert_eq!(called(&world, "a"), ["x"], "it may still present the certificate");
    world.acknowledge();
    assert_eq!(called(&world, "a"), [""; 0]);
}

/// Selects all proxies.
fn identity(path: &str) -> AppliedIdentity {
    AppliedIdentity {
        name: "identity".into(),
        kri: "kri_mid_default___identity_".into(),
        trust_domain: "td".into(),
        path: Some(path.into()),
        provider: Some(AppliedProvider::Bundled { ca: "ca".into(), seconds: 60 }),
        ..AppliedIdentity::default()
    }
}

#[test]
fn destination_that_accepts_plain_text_is_never_trimmed() {
    let mut world = mesh(Mode::On);
    let mode = |mode: &str| {
        let target = json!({ "kind": "Dataplane", "name": "x" });
        json!({ "targetRef": target, "rules": [{ "default": { "mode": mode } }] }).to_string()
    };
    let server = world.policy("MeshTLS", "x", Some(&mode("Permissive")));
    assert_eq!(server.proxies.iter().map(|each| &*each.key.name).collect::<Vec<_>>(), ["x"]);
    assert_eq!(called(&world, "a"), [""; 0], "the server has not acknowledged");
    world.acknowledge();
    assert_eq!((called(&world, "a"), called(&world, "b")), (vec!["x".to_owned()], vec!["x".to_owned()]));
    world.policy("MeshTLS", "x", Some(&mode("Strict")));
    assert_eq!(called(&world, "a"), ["x"], "the server has not acknowledged");
    world.acknowledge();
    assert_eq!((called(&world, "a"), called(&world, "b")), (vec![], vec![]));
}

/// A server of `x` with version 2, which a permission may select alone.
fn second(world: &mut World) {
    let mut inbound = inbound(80, "x", "http");
    inbound["tags"]["version"] = json!("2");
    world.dataplane("x-2", dataplane("x-2", &[inbound], &[]));
    world.connect("x-2");
    world.acknowledge();
}

fn allow_at_version(version: &str, caller: &str) -> String {
    let target = json!({ "kind": "MeshServiceSubset", "name": "x", "tags": { "version": version } });
    let from = json!([{ "targetRef": service(caller), "default": { "action": "Allow" } }]);
    json!({ "targetRef": target, "from": from }).to_string()
}

#[test]
fn server_that_rejects_everything_does_not_freeze_the_others() {
    let mut world = mesh(Mode::On);
    second(&mut world);
    world.permission("x", Some(&allow("x", &["a"])));
    world.acknowledge_of("x-2");
    assert_eq!(called(&world, "a"), [""; 0], "the other server may acknowledge in time");
    world.now += SignedDuration::from_secs(10);
    world.apply(EngineChange::Tick);
    assert_eq!(called(&world, "a"), ["x"]);
    for _ in 0..2 {
        world.permission("new", Some(&allow_at_version("2", "b")));
        world.acknowledge_of("x-2");
        assert_eq!(called(&world, "b"), ["x"], "it is not waited for any longer");
        world.permission("new", None);
        assert_eq!(called(&world, "b"), ["x"], "the server has not acknowledged");
        world.acknowledge_of("x-2");
        assert_eq!(called(&world, "b"), [""; 0]);
    }
    world.permission("x", None);
    world.acknowledge_of("x-2");
    assert_eq!(called(&world, "a"), ["x"], "nobody knows what it has");
    world.acknowledge();
    assert_eq!(called(&world, "a"), [""; 0]);
}

#[test]
fn acknowledgement_of_an_earlier_edit_does_not_count_for_a_later_one() {
    let mut world = mesh(Mode::On);
    world.permission("x", Some(&allow("x", &["a"])));
    let early = world.engine.updated(&key("x")).unwrap().acknowledgement().unwrap();
    world.permission("x", Some(&allow("x", &["b"])));
    world.permission("x", Some(&allow("x", &["a", "b"])));
    world.apply(early);
    assert_eq!((called(&world, "a"), called(&world, "b")), (vec![], vec![]));
    world.acknowledge();
    assert_eq!((called(&world, "a").len(), called(&world, "b").len()), (1, 1));
}

#[test]
fn changed_tag_of_a_server_reaches_it_before_its_callers() {
    let mut world = mesh(Mode::On);
    second(&mut world);
    world.permission("x", Some(&allow_at_version("2", "a")));
    world.acknowledge();
    assert_eq!(called(&world, "a"), ["x"]);
    world.dataplane("x-2", dataplane("x-2", &[inbound(80, "x", "http")], &[]));
    assert_eq!(called(&world, "a"), ["x"], "the server has not acknowledged");
    world.acknowledge();
    assert_eq!(called(&world, "a"), [""; 0]);
}

#[test]
fn changed_tag_of_a_client_keeps_destinations_of_the_certificate_that_it_presents() {
    let mut world = mesh(Mode::On);
    world.permission("x", Some(&allow("x", &["a"])));
    world.permission("y", Some(&allow("y", &["c"])));
    world.acknowledge();
    let networking = json!({ "address": "10.0.0.7", "inbound": [inbound(80, "c", "http")],
        "transparentProxying": { "redirectPortInbound": 15006, "redirectPortOutbound": 15001 } });
    world.dataplane("a", json!({ "networking": networking }).to_string());
    world.assign_vips();
    assert_eq!(called(&world, "a"), ["x", "y"]);
    world.acknowledge();
    assert_eq!(called(&world, "a"), ["y"]);
}

#[test]
fn denial_is_waited_for_also_after_a_restart_and_another_mode() {
    for is_restart in [false, true] {
        let mut world = mesh(Mode::On);
        world.permission("x", Some(&allow("x", &["a"])));
        world.acknowledge();
        world.permission("x", None);
        if is_restart {
            world.restart();
        } else {
            world.reachability(Some(Mode::Off));
            world.reachability(Some(Mode::On));
        }
        assert!(called(&world, "a").contains(&"x".to_owned()), "the server has not acknowledged");
        world.acknowledge();
        assert_eq!(called(&world, "a"), [""; 0]);
    }
}

#[test]
fn acknowledgements_of_many_servers_compute_a_destination_once() {
    let mut world = mesh(Mode::On);
    for n in 0..40 {
        world.dataplane(&format!("x-{n}"), dataplane(&format!("x-{n}"), &[inbound(80, "x", "http")], &[]));
        world.connect(&format!("x-{n}"));
    }
    world.acknowledge();
    world.permission("x", Some(&allow("x", &["a"])));
    let mut updated = vec![world.acknowledge_of("x").unwrap()];
    updated.extend((0..40).filter_map(|n| world.acknowledge_of(&format!("x-{n}"))));
    let (last, others) = updated.split_last().unwrap();
    assert_eq!(others.len(), 40);
    assert!(others.iter().all(|outcome| outcome.stats == Stats::default()));
    assert_eq!(last.stats.woken, 1);
    assert_eq!(called(&world, "a"), ["x"]);
}
