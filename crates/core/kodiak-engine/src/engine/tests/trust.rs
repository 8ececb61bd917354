//! Trust travels in secrets: a step that changes who is trusted, expected or presented changes no listener and no cluster.

use std::{collections::BTreeSet, sync::Arc};

use kodiak_identity::{ServerAccess, accepts};
use kodiak_model::{InboundTls, kinds::dataplane::BackendKind};
use kodiak_rollout::{AppliedIdentity, AppliedProvider, DesiredIdentities, Rollout};
use kodiak_rules::Proxy;
use kodiak_xds_stream::TypeUrl;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{
    names,
    world::{World, dataplane, inbound},
};
use crate::{Stats, redacted};

/// Name, trust domain, and whether it has a provider.
type Identity = (&'static str, &'static str, bool);

fn desired(identities: &[Identity], trusted: &[&str]) -> DesiredIdentities {
    let mut desired = DesiredIdentities::default();
    for (name, domain, issues) in identities {
        let provider = AppliedProvider::Bundled { ca: format!("{domain}-ca").into(), seconds: 60 };
        desired.identities.push(Arc::new(AppliedIdentity {
            name: (*name).into(),
            kri: format!("kri_mid_default___{name}_").into(),
            trust_domain: (*domain).into(),
            path: Some("/proxy".into()),
            provider: issues.then_some(provider),
            ..AppliedIdentity::default()
        }));
    }
    let issuing = identities.iter().filter(|(_, _, issues)| *issues).map(|(_, domain, _)| *domain);
    for domain in issuing.chain(trusted.iter().copied()) {
        desired.trust(domain.into(), [format!("root of {domain}\n").into()]);
    }
    desired
}

fn mesh(backends: &[&str], mode: &str) -> String {
    let all: Vec<Value> =
        backends.iter().map(|name| json!({ "name": name, "type": "builtin", "mode": mode })).collect();
    let enabled = backends.first();
    let mtls = enabled.map(|enabled| json!({ "enabledBackend": enabled, "backends": all }));
    json!({ "meshServices": { "mode": "Everywhere" }, "mtls": mtls }).to_string()
}

const PROXIES: [&str; 4] = ["web-1", "web-2", "backend-1", "front"];

fn service(identities: &Value) -> Value {
    json!({
        "labels": { "kuma.io/display-name": "backend", "kuma.io/zone": "default", "kuma.io/origin": "zone" },
        "spec": {
            "selector": { "dataplaneTags": { "kuma.io/service": "backend" } },
            "ports": [{ "port": 8080, "targetPort": 8080, "appProtocol": "http", "name": "main" }],
            "identities": identities,
        },
        "status": { "vips": [{ "ip": "241.0.0.1" }] },
    })
}

/// Clients by tag, by MeshService, of everything and of single instances, and a server.
fn world() -> World {
    let mut world = World::default();
    world.mesh(&mesh(&[], ""));
    world.dataplane("backend-1", dataplane("backend-1", &[inbound(8080, "backend", "http")], &[]));
    world.object(BackendKind::MeshService, "backend", Some(service(&json!([]))));
    for name in ["web-1", "web-2"] {
        world.dataplane(name, dataplane(name, &[inbound(80, "web", "http")], &[(10001, "backend")]));
    }
    let spec = json!({ "networking": {
        "address": "10.0.0.7",
        "inbound": [inbound(80, "front", "tcp")],
        "transparentProxying": {
            "redirectPortInbound": 15006, "redirectPortOutbound": 15001, "directAccessServices": ["*"],
        },
    } });
    world.dataplane("front", spec.to_string());
    for name in PROXIES {
        world.connect(name);
    }
    world.assign_vips();
    world
}

/// All proxies have the same certificates here, so one stands for all: what it accepts, and whether clients encrypt.
fn encryption(step: &Rollout) -> (InboundTls, InboundTls, bool, ServerAccess, bool) {
    let proxy = Proxy {
        mesh: "default".into(),
        name: "any".into(),
        labels: Arc::default(),
        dataplane: Arc::default(),
        admission: None,
    };
    let strict = Some(kodiak_model::kinds::mesh::MtlsMode::Strict);
    let has_one = kodiak_identity::has_certificate(&step.issuers, &proxy);
    (accepts(step, &proxy, None), accepts(step, &proxy, strict), step.call, ServerAccess::of(step, &proxy), has_one)
}

#[derive(Debug, Clone)]
struct Target {
    backends: &'static [&'static str],
    mode: &'static str,
    identities: Vec<Identity>,
    trusted: Vec<&'static str>,
    /// Steps that are taken towards it before the next target.
    steps: usize,
}

const BACKENDS: [&[&str]; 5] = [&[], &["a"], &["b"], &["a", "b"], &["b", "a"]];

fn a_target() -> impl Strategy<Value = Target> {
    let backends = prop::sample::select(&BACKENDS[..]);
    let mode = prop::sample::select(&["STRICT", "STRICT", "PERMISSIVE"][..]);
    let all: [Identity; 4] = [
        ("new", "new.local", true),
        ("new", "moved.local", true),
        ("old", "old.local", true),
        ("x", "new.local", false),
    ];
    let identities = prop::sample::subsequence(all.to_vec(), 0..3);
    let trusted = prop::sample::subsequence(vec!["new.local", "other.local"], 0..2);
    (backends, mode, identities, trusted, 1..9usize).prop_map(|(backends, mode, mut identities, trusted, steps)| {
        identities.dedup_by_key(|(name, _, _)| *name);
        Target { backends, mode, identities, trusted, steps }
    })
}

/// Takes steps towards a target. Returns the number of steps that kept encryption, and of proxies whose
/// secrets changed with one of those.
fn walk(world: &mut World, target: &Target) -> (usize, usize) {
    let Target { backends, mode, identities, trusted, steps } = target;
    world.identities = desired(identities, trusted);
    world.mesh(&mesh(backends, mode));
    let (mut kept, mut changed) = (0, 0);
    for _ in 0..*steps {
        let before = PROXIES.map(|name| world.snapshot(name));
        let last = world.current_rollout();
        let Some(next) = world.next_rollout() else { break };
        let same = last.is_some_and(|last| encryption(&last) == encryption(&next));
        let outcome = world.rollout(Some(next.clone()));
        for updated in &outcome.proxies {
            assert!(updated.faults.is_empty(), "{} at {}: {:?}", updated.key, next.token(), updated.faults);
        }
        if !same {
            continue;
        }
        kept += 1;
        for (name, before) in PROXIES.iter().zip(before) {
            let after = world.snapshot(name);
            for type_url in [TypeUrl::Listener, TypeUrl::Cluster, TypeUrl::Endpoint, TypeUrl::Route] {
                assert_eq!(before.of(type_url), after.of(type_url), "{type_url} of {name} at {}", next.token());
            }
            assert_eq!(
                before.of(TypeUrl::Secret).keys().collect::<Vec<_>>(),
                after.of(TypeUrl::Secret).keys().collect::<Vec<_>>(),
                "names of secrets do not depend on their content"
            );
            changed += usize::from(before.of(TypeUrl::Secret) != after.of(TypeUrl::Secret));
        }
    }
    (kept, changed)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn steps_with_the_same_encryption_change_no_listener_and_no_cluster(
        targets in prop::collection::vec(a_target(), 1..7)
    ) {
        let mut world = world();
        for target in &targets {
            walk(&mut world, target);
        }
    }
}

/// The flow of a user who prepares a MeshIdentity with one that has no provider, and then moves its trust domain and back.
#[test]
fn whole_move_to_an_identity_and_back_changes_only_secrets() {
    let at = |identities: &[Identity], trusted: &[&'static str]| Target {
        backends: &["a"],
        mode: "STRICT",
        identities: identities.to_vec(),
        trusted: trusted.to_vec(),
        steps: 20,
    };
    let mut world = world();
    walk(&mut world, &at(&[], &[]));
    let moves = [
        at(&[], &["new.local"]),
        at(&[("announced", "new.local", false)], &[]),
        at(&[("announced", "new.local", false), ("new", "new.local", true)], &[]),
        at(&[("new", "new.local", true)], &[]),
        at(&[("new", "moved.local", true)], &[]),
        Target { backends: &[], ..at(&[("new", "moved.local", true)], &[]) },
        Target { backends: &["b"], ..at(&[], &[]) },
        at(&[], &[]),
    ];
    let mut all = 0;
    for target in moves {
        let (kept, changed) = walk(&mut world, &target);
        assert!(world.next_rollout().is_none(), "{target:?} is reached");
        assert!(kept > 0, "{target:?} has steps");
        all += changed;
    }
    assert!(all > 40, "secrets of four proxies change with each step: {all}");
}

fn accepted(world: &World, proxy: &str, secret: &str) -> BTreeSet<String> {
    let config = redacted::config(&world.snapshot(proxy)).unwrap();
    let secrets = &config["type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret"];
    let names = secrets[secret]["validationContext"]["matchTypedSubjectAltNames"].as_array().cloned();
    let text = |matcher: Value| matcher["matcher"]["exact"].as_str().unwrap_or_default().to_owned();
    names.unwrap_or_default().into_iter().map(text).collect()
}

#[test]
fn changed_identity_of_a_service_is_one_secret_for_its_clients_alone() {
    let mut world = world();
    walk(&mut world, &Target { backends: &["a"], mode: "STRICT", identities: vec![], trusted: vec![], steps: 20 });
    let secret = "mesh_ca:secret:default:backend__default_default_msvc_8080";
    let others = ["web-1", "web-2", "backend-1"].map(|name| world.snapshot(name));
    let id = json!([{ "type": "SpiffeID", "value": "spiffe://elsewhere/backend" }]);
    let outcome = world.object(BackendKind::MeshService, "backend", Some(service(&id)));
    assert_eq!(outcome.stats, Stats { encoded: 1, woken: 1 });
    let expected = BTreeSet::from(["spiffe://default/backend".to_owned(), "spiffe://elsewhere/backend".to_owned()]);
    assert_eq!(accepted(&world, "front", secret), expected);
    for (name, before) in ["web-1", "web-2", "backend-1"].iter().zip(others) {
        assert_eq!(world.snapshot(name), before, "{name} does not call it");
    }
}

#[test]
fn clients_share_the_secret_of_a_cluster() {
    let mut world = world();
    walk(&mut world, &Target { backends: &["a"], mode: "STRICT", identities: vec![], trusted: vec![], steps: 20 });
    let secret = "mesh_ca:secret:default:backend";
    assert_eq!(
        names(&world, "web-1", TypeUrl::Secret),
        ["identity_cert:secret:default", "mesh_ca:secret:default", secret]
    );
    let of = |proxy: &str| world.snapshot(proxy).of(TypeUrl::Secret)[secret].clone();
    assert!(Arc::ptr_eq(&of("web-1"), &of("web-2")) && Arc::ptr_eq(&of("web-1"), &of("front")));
}
