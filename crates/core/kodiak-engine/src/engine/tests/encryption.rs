//! Encryption is decided for each endpoint: a member without a certificate changes nothing for others.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use kodiak_model::{InboundTls, kinds::dataplane::BackendKind};
use kodiak_rollout::{AppliedIdentity, AppliedProvider, DesiredIdentities, Selector};
use kodiak_rules::Proxy;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::world::{MESH, World, inbound, key};
use crate::{EngineChange, redacted};

const CLUSTER: &str = "type.googleapis.com/envoy.config.cluster.v3.Cluster";
const LISTENER: &str = "type.googleapis.com/envoy.config.listener.v3.Listener";
const ENDPOINTS: &str = "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment";
const PROXIES: [&str; 4] = ["p-1", "p-2", "p-3", "p-4"];
const BY_PORT: &str = "backend__default_default_msvc_8080";

/// A MeshIdentity for the Dataplanes with this label, or for all.
fn identity(name: &str, label: Option<&str>) -> Arc<AppliedIdentity> {
    let labels = label.map(|label| (label.to_owned(), "yes".to_owned()));
    Arc::new(AppliedIdentity {
        name: name.into(),
        kri: format!("kri_mid_default___{name}_").into(),
        selector: Selector(labels.into_iter().collect()),
        trust_domain: format!("{name}.local").into(),
        path: Some("/proxy".into()),
        provider: Some(AppliedProvider::Bundled { ca: name.into(), seconds: 60 }),
    })
}

fn desired(identities: &[Arc<AppliedIdentity>]) -> DesiredIdentities {
    let mut desired = DesiredIdentities { identities: identities.to_vec(), ..DesiredIdentities::default() };
    for identity in identities {
        desired.trust(identity.trust_domain.clone(), [format!("root of {}\n", identity.name).into()]);
    }
    desired
}

fn mesh(backend: bool, mode: &str) -> String {
    let mtls = json!({ "enabledBackend": "ca", "backends": [{ "name": "ca", "type": "builtin", "mode": mode }] });
    json!({ "meshServices": { "mode": "Everywhere" }, "mtls": backend.then_some(mtls) }).to_string()
}

fn address(name: &str) -> String {
    format!("10.0.0.{}", name.rsplit('-').next().unwrap())
}

/// A member of `backend` that calls everything, also the instances of `backend` by their own addresses.
fn proxy(name: &str, labels: &[&str]) -> Proxy {
    let spec = json!({ "networking": {
        "address": address(name),
        "inbound": [inbound(8080, "backend", "http")],
        "transparentProxying": {
            "redirectPortInbound": 15006, "redirectPortOutbound": 15001, "directAccessServices": ["*"],
        },
    } });
    Proxy {
        mesh: MESH.into(),
        name: name.into(),
        labels: Arc::new(labels.iter().map(|label| ((*label).to_owned(), "yes".to_owned())).collect()),
        dataplane: Arc::new(serde_json::from_value(spec).unwrap()),
        admission: None,
    }
}

fn set(world: &mut World, name: &str, labels: &[&str]) {
    world.apply(EngineChange::Dataplane { key: key(name), dataplane: Some(Arc::new(proxy(name, labels))) });
}

fn world() -> World {
    let mut world = World::default();
    world.mesh(&mesh(false, ""));
    let service = json!({
        "labels": { "kuma.io/display-name": "backend", "kuma.io/zone": "default", "kuma.io/origin": "zone" },
        "spec": {
            "selector": { "dataplaneTags": { "kuma.io/service": "backend" } },
            "ports": [{ "port": 8080, "targetPort": 8080, "appProtocol": "http", "name": "main" }],
        },
        "status": { "vips": [{ "ip": "241.0.0.1" }] },
    });
    world.object(BackendKind::MeshService, "backend", Some(service));
    for name in PROXIES {
        set(&mut world, name, &[]);
        world.connect(name);
    }
    world.assign_vips();
    world
}

/// One call that a client's configuration makes possible.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Call {
    cluster: String,
    address: String,
    encrypted: bool,
}

fn is_marked(endpoint: &Value) -> bool {
    endpoint["metadata"]["filterMetadata"]["envoy.transport_socket_match"]["kodiak.io/plaintext"] == json!(true)
}

fn calls(config: &Value) -> BTreeSet<Call> {
    let mut calls = BTreeSet::new();
    for (name, assignment) in config[ENDPOINTS].as_object().into_iter().flatten() {
        let cluster = &config[CLUSTER][name];
        let groups = assignment["endpoints"].as_array().into_iter().flatten();
        for endpoint in groups.flat_map(|group| group["lbEndpoints"].as_array().into_iter().flatten()) {
            let address = endpoint["endpoint"]["address"]["socketAddress"]["address"].as_str().unwrap().to_owned();
            let raw = !cluster["transportSocketMatches"].is_null() && is_marked(endpoint);
            let encrypted = !cluster["transportSocket"].is_null() && !raw;
            calls.insert(Call { cluster: name.clone(), address, encrypted });
        }
    }
    for (name, listener) in config[LISTENER].as_object().into_iter().flatten() {
        let Some(rest) = name.strip_prefix("direct_access_") else { continue };
        let address = rest.split(':').next().unwrap().to_owned();
        let filters = listener["filterChains"][0]["filters"].as_array().unwrap();
        let cluster = filters.last().unwrap()["typedConfig"]["cluster"].as_str().unwrap();
        let called = &config[CLUSTER][cluster];
        assert!(called.is_object(), "{cluster} exists");
        if called["type"] == "ORIGINAL_DST" {
            let encrypted = !called["transportSocket"].is_null();
            calls.insert(Call { cluster: cluster.to_owned(), address, encrypted });
        }
    }
    calls
}

/// Whether the inbound of a server accepts plain text, and mTLS.
fn accepted(config: &Value, name: &str) -> (bool, bool) {
    let chains = config[LISTENER][format!("inbound:{}:8080", address(name))]["filterChains"].as_array().unwrap();
    let ends_tls = |chain: &Value| !chain["transportSocket"].is_null();
    (chains.iter().any(|chain| !ends_tls(chain)), chains.iter().any(ends_tls))
}

fn configs(world: &World) -> BTreeMap<&'static str, Value> {
    PROXIES.map(|name| (name, redacted::config(&world.snapshot(name)).unwrap())).into()
}

/// Calls of clients at one step to servers at another. Returns the number of calls in plain text and with mTLS.
fn check(world: &World, clients: &BTreeMap<&str, Value>, servers: &BTreeMap<&str, Value>) -> [usize; 2] {
    let step = world.current_rollout().unwrap();
    let mut counts = [0, 0];
    for (client, config) in clients {
        for call in calls(config) {
            let server = PROXIES.into_iter().find(|name| address(name) == call.address).unwrap();
            let (plain, mtls) = accepted(&servers[server], server);
            let case = || format!("{client} calls {server}: {call:?} at {}", step.token());
            assert!(call.encrypted || plain, "{} is refused", case());
            assert!(call.encrypted || step.accept != InboundTls::Strict || !step.call, "{} in plain text", case());
            assert!(!call.encrypted || mtls, "{} cannot answer", case());
            counts[usize::from(call.encrypted)] += 1;
        }
    }
    counts
}

#[derive(Debug, Clone)]
enum Edit {
    Labels(usize, Vec<&'static str>),
    Mesh(bool, &'static str),
    Identities(Vec<Arc<AppliedIdentity>>),
    Tls(Option<&'static str>),
}

fn an_edit() -> impl Strategy<Value = Edit> {
    let labels = prop::sample::subsequence(vec!["a", "b"], 0..=2);
    let all = vec![identity("a", Some("a")), identity("b", Some("b")), identity("all", None)];
    let identities = prop::sample::subsequence(all, 0..=3);
    let modes = prop::sample::select(&["STRICT", "PERMISSIVE"][..]);
    let tls = prop::option::of(prop::sample::select(&["Strict", "Permissive"][..]));
    prop_oneof![
        4 => (0..PROXIES.len(), labels).prop_map(|(proxy, labels)| Edit::Labels(proxy, labels)),
        2 => (any::<bool>(), modes).prop_map(|(backend, mode)| Edit::Mesh(backend, mode)),
        3 => identities.prop_map(Edit::Identities),
        1 => tls.prop_map(Edit::Tls),
    ]
}

/// All labels of the proxies.
type AllLabels = [Vec<&'static str>; 4];

/// The next step. As a leader does, it waits while a proxy would have no certificate on a strict mesh.
fn step(world: &mut World, labels: &AllLabels) -> bool {
    let proxies = labels.each_ref().map(|labels| proxy("any-1", labels));
    let has = |issuers| proxies.each_ref().map(|proxy| kodiak_identity::has_certificate(issuers, proxy));
    let current = world.current_rollout().unwrap_or_default();
    let target = world.target();
    let (now, then) = (has(&current.issuers), has(&target.issuers));
    let loses = now.iter().zip(then).any(|(now, then)| *now && !then);
    let Some((_, next)) = current.next(&target, loses) else { return false };
    if current.needs_identities(&next) && has(&next.issuers).contains(&false) {
        return false;
    }
    world.rollout(Some(next));
    true
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn clients_send_plain_text_to_nobody_who_refuses_it(edits in prop::collection::vec((an_edit(), 0..6usize), 1..10)) {
        let mut world = world();
        let mut labels: AllLabels = [const { Vec::new() }; 4];
        world.rollout(Some(kodiak_rollout::Rollout::default()));
        for (edit, steps) in edits {
            match edit {
                Edit::Labels(proxy, new) => {
                    set(&mut world, PROXIES[proxy], &new);
                    labels[proxy] = new;
                }
                Edit::Mesh(backend, mode) => drop(world.mesh(&mesh(backend, mode))),
                Edit::Identities(identities) => world.identities = desired(&identities),
                Edit::Tls(mode) => {
                    let spec = mode.map(|mode| {
                        json!({ "targetRef": { "kind": "Mesh" }, "rules": [{ "default": { "mode": mode } }] }).to_string()
                    });
                    world.policy("MeshTLS", "mode", spec.as_deref());
                }
            }
            let now = configs(&world);
            check(&world, &now, &now);
            for _ in 0..steps {
                let before = configs(&world);
                if !step(&mut world, &labels) {
                    break;
                }
                let after = configs(&world);
                check(&world, &after, &after);
                // Clients that have not acknowledged the step yet.
                check(&world, &before, &after);
            }
        }
    }
}

/// A mesh whose MeshIdentity selects the label `a`, at its target.
fn identity_only(labels: &[&[&'static str]; 4]) -> (World, AllLabels) {
    let mut world = world();
    let labels = labels.map(<[_]>::to_vec);
    for (name, labels) in PROXIES.iter().zip(&labels) {
        set(&mut world, name, labels);
    }
    world.rollout(Some(kodiak_rollout::Rollout::default()));
    world.identities = desired(&[identity("a", Some("a"))]);
    while step(&mut world, &labels) {}
    (world, labels)
}

fn to(calls: &BTreeSet<Call>, cluster: &str) -> Vec<(String, bool)> {
    let of = calls.iter().filter(|call| call.cluster == cluster);
    of.map(|call| (call.address.clone(), call.encrypted)).collect()
}

#[test]
fn unlabelled_replica_of_a_strict_mesh_is_no_endpoint_and_changes_no_other() {
    let (mut world, _) = identity_only(&[&["a"], &["a"], &["a"], &["a"]]);
    assert!(world.current_rollout().unwrap().token().starts_with("accept=mtls call=mtls"));
    let before = configs(&world);
    let clusters = before["p-1"][CLUSTER].clone();
    set(&mut world, "p-4", &[]);
    let after = configs(&world);
    let [_, mtls] = check(&world, &after, &after);
    assert!(mtls > 0);
    let members = [("10.0.0.1".to_owned(), true), ("10.0.0.2".to_owned(), true), ("10.0.0.3".to_owned(), true)];
    for cluster in ["backend", BY_PORT] {
        assert_eq!(to(&calls(&after["p-1"]), cluster), members, "{cluster}");
    }
    let mut now = after["p-1"][CLUSTER].clone();
    // It is not called in plain text at its own address either.
    assert!(now.as_object_mut().unwrap().remove("direct_access_closed").is_some());
    assert_eq!(now, clusters, "no cluster changes");
    assert!(calls(&after["p-4"]).is_empty(), "it could only call in plain text: {:?}", calls(&after["p-4"]));
}

#[test]
fn members_with_a_certificate_are_called_with_mtls_beside_others_in_plain_text() {
    let (world, _) = identity_only(&[&["a"], &["a"], &[], &[]]);
    let token = world.current_rollout().unwrap().token();
    assert!(token.starts_with("accept=both call=mtls"), "it waits for all: {token}");
    let configs = configs(&world);
    let [plain, mtls] = check(&world, &configs, &configs);
    assert!(plain > 0 && mtls > 0);
    let mixed = [("10.0.0.1", true), ("10.0.0.2", true), ("10.0.0.3", false), ("10.0.0.4", false)];
    let mixed = mixed.map(|(address, encrypted)| (address.to_owned(), encrypted));
    for cluster in ["backend", BY_PORT] {
        assert_eq!(to(&calls(&configs["p-1"]), cluster), mixed, "{cluster}");
    }
    assert_eq!(to(&calls(&configs["p-1"]), "direct_access"), mixed[1..2]);
    assert_eq!(to(&calls(&configs["p-1"]), "direct_access_plaintext"), mixed[2..]);
}
