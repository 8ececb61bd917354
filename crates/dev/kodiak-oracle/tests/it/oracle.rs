//! The oracle tells the steps of small meshes apart, and random meshes have calls of every kind.

use std::collections::BTreeSet;

use kodiak_oracle::meshes::{MESH, all_meshes};
use kodiak_oracle::settled::Settled;
use kodiak_oracle::{Answer, Caller, Oracle, Reason};
use kodiak_reachability::Mode;
use proptest::strategy::{Strategy as _, ValueTree as _};
use proptest::test_runner::TestRunner;
use serde_json::{Value, json};

/// Meshes in which every kind of answer occurs.
const MESHES: usize = 64;

fn dataplane(n: u32, service: &str) -> Value {
    json!({ "type": "Dataplane", "mesh": MESH, "name": service, "labels": { "app": service }, "networking": {
        "address": format!("10.0.0.{n}"),
        "inbound": [{ "port": 8080, "tags": { "kuma.io/service": service, "kuma.io/protocol": "http" } }],
        "transparentProxying": { "redirectPortInbound": 15006, "redirectPortOutbound": 15001, "ipFamilyMode": "IPv4" },
    } })
}

/// `a` may call `b`.
fn oracle(mode: &str) -> Oracle {
    let mtls = json!({ "enabledBackend": "ca", "backends": [{ "name": "ca", "type": "builtin", "mode": mode }] });
    let mesh = json!({ "type": "Mesh", "name": MESH, "mtls": mtls });
    let allow =
        json!([{ "default": { "allow": [{ "spiffeID": { "type": "Exact", "value": "spiffe://default/a" } }] } }]);
    let target = json!({ "kind": "Dataplane", "labels": { "app": "b" } });
    let permission = json!({
        "type": "MeshTrafficPermission", "mesh": MESH, "name": "b", "spec": { "targetRef": target, "rules": allow },
    });
    Settled::of(vec![mesh, dataplane(1, "a"), dataplane(2, "b"), permission]).unwrap().oracle(Mode::Off)
}

#[test]
fn call_ends_at_the_permission_of_the_server() {
    let oracle = oracle("STRICT");
    let [a, b] = ["240.0.0.0", "240.0.0.1"];
    assert_eq!(oracle.call("a", b, 80), Answer::Answered);
    assert_eq!(oracle.call("b", a, 80), Answer::Refused(Reason::Denied));
    assert_eq!(oracle.call("a", "240.0.0.9", 80), Answer::Refused(Reason::NotConfigured));
}

#[test]
fn strict_inbound_refuses_plain_text_and_permissive_one_does_not() {
    let admitted = |mode, caller| oracle(mode).admits(caller, "10.0.0.2", 8080).unwrap().is_answered();
    assert!(!admitted("STRICT", Caller::PlainText));
    assert!(admitted("PERMISSIVE", Caller::PlainText));
    for mode in ["STRICT", "PERMISSIVE"] {
        assert!(admitted(mode, Caller::Proxy("a")));
        assert!(!admitted(mode, Caller::Proxy("b")));
    }
}

/// Otherwise properties that compare with the oracle would be about nothing.
#[test]
fn random_meshes_have_every_answer() {
    let mut runner = TestRunner::deterministic();
    let mut seen = BTreeSet::new();
    for _ in 0..MESHES {
        let mesh = all_meshes().new_tree(&mut runner).unwrap().current();
        let settled = Settled::of(mesh.documents()).unwrap();
        let oracle = settled.oracle(Mode::Off);
        for sidecar in mesh.sidecars.iter().filter(|sidecar| sidecar.is_redirected()) {
            for (_, address, port) in settled.destinations() {
                seen.insert(match oracle.call(&sidecar.name, &address.to_string(), port) {
                    Answer::Answered => "answered",
                    Answer::Unknown(_) => "unknown",
                    Answer::Refused(Reason::NotConfigured) => "not configured",
                    Answer::Refused(Reason::NoRoute) => "no route",
                    Answer::Refused(Reason::NoEndpoints) => "no endpoints",
                    Answer::Refused(Reason::Responded(_) | Reason::NoInbound) => "other",
                    Answer::Refused(Reason::Tls(_)) => "TLS",
                    Answer::Refused(Reason::Denied) => "denied",
                });
            }
        }
    }
    for expected in ["answered", "not configured", "no route", "no endpoints", "TLS", "denied"] {
        assert!(seen.contains(expected), "{expected}: {seen:?}");
    }
}
