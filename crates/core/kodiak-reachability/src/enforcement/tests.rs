//! Inbounds with every TLS mode, at every kind of step.

use std::collections::BTreeMap;

use kodiak_model::{Kind, policy::Body};
use kodiak_policies::mesh_tls;
use kodiak_rollout::{AppliedIdentity, AppliedProvider, Issuers, Selector};
use kodiak_rules::{Policy, PolicyIndex, Shadow};
use serde_json::{Value, json};

use super::*;
use crate::Admission;

const MESH: &str = "default";
const SERVER: &str = "server";

fn proxy(labels: &[(&str, &str)]) -> Arc<Proxy> {
    let inbound = json!({ "port": 80, "tags": { "kuma.io/service": "backend" } });
    let dataplane = json!({ "networking": { "address": "10.0.0.1", "inbound": [inbound] } });
    let labels: BTreeMap<String, String> =
        labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    Arc::new(Proxy {
        mesh: MESH.into(),
        name: SERVER.into(),
        labels: Arc::new(labels),
        dataplane: Arc::new(serde_json::from_value(dataplane).unwrap()),
        admission: None,
    })
}

/// A server with this TLS mode, without permissions.
fn index(server: Arc<Proxy>, mode: Option<&str>) -> PolicyIndex {
    let mut index = PolicyIndex::default();
    index.set_proxy(&SERVER.into(), Some(server));
    if let Some(mode) = mode {
        set_policy(&mut index, &mesh_tls::KIND, &json!({ "rules": [{ "default": { "mode": mode } }] }));
    }
    index
}

fn set_policy(index: &mut PolicyIndex, kind: &'static Kind, spec: &Value) {
    let body = Body::read(&kind.policy.unwrap(), spec).unwrap();
    let policy = Policy { kind, mesh: MESH.into(), name: "p".into(), labels: Arc::default(), body };
    index.set_policy(&(kind.name, policy.name.clone()), Some(Arc::new(policy)));
}

fn identity() -> Issuers {
    let identity = AppliedIdentity {
        name: "identity".into(),
        selector: Selector([("app".to_owned(), "backend".to_owned())].into()),
        trust_domain: "td".into(),
        path: Some("/backend".into()),
        provider: Some(AppliedProvider::Bundled { ca: "ca".into(), seconds: 60 }),
        ..AppliedIdentity::default()
    };
    Issuers { identities: vec![Arc::new(identity)], ..Issuers::default() }
}

fn backend() -> Issuers {
    Issuers { signer: Some("ca".into()), ..Issuers::default() }
}

fn step(accept: InboundTls, issuers: Issuers) -> Rollout {
    Rollout { accept, strict_allowed: accept == InboundTls::Permissive, call: true, issuers, ..Rollout::default() }
}

#[test]
fn permissions_act_on_mtls_and_trimming_waits_for_strict_inbounds() {
    use InboundEffect::{AdmitsAll, AdmitsNone, ByPermissions};
    use InboundTls::{Permissive, Strict};
    let selected = || proxy(&[("app", "backend")]);
    for (rollout, server, mode, calls, trimming) in [
        (step(Strict, backend()), selected(), None, ByPermissions, ByPermissions),
        (step(Strict, backend()), selected(), Some("Permissive"), ByPermissions, AdmitsAll),
        (step(Permissive, backend()), selected(), None, ByPermissions, AdmitsAll),
        (step(Permissive, backend()), selected(), Some("Strict"), ByPermissions, ByPermissions),
        (step(Permissive, identity()), selected(), None, ByPermissions, ByPermissions),
        (step(Strict, identity()), selected(), None, ByPermissions, ByPermissions),
        // Without a certificate.
        (step(Permissive, identity()), proxy(&[]), None, AdmitsAll, AdmitsAll),
        (step(Strict, identity()), proxy(&[]), None, AdmitsNone, ByPermissions),
    ] {
        let index = index(server, mode);
        let effect =
            |purpose| Source { index: &index, shadow: Shadow::Ignored, rollout: &rollout, purpose }.effect(SERVER, 0);
        assert_eq!((effect(Purpose::Calls), effect(Purpose::Trimming)), (calls, trimming), "{rollout:?} {mode:?}");
    }
}

#[test]
fn steps_before_all_clients_use_mtls_trim_nothing() {
    for (call, accept, strict_allowed, calls, trimming) in [
        (false, InboundTls::Permissive, false, false, false),
        (true, InboundTls::Permissive, false, true, false),
        (true, InboundTls::Permissive, true, true, true),
        (true, InboundTls::Strict, false, true, true),
    ] {
        let rollout = Rollout { call, accept, strict_allowed, ..Rollout::default() };
        let decided = [Purpose::Calls, Purpose::Trimming].map(|purpose| purpose.is_decided_by_permissions(&rollout));
        assert_eq!(decided, [calls, trimming], "{rollout:?}");
    }
}

#[test]
fn answer_is_that_of_the_listener() {
    let allowed = "spiffe://td/a".to_owned();
    let rule = json!({ "allow": [{ "spiffeID": { "type": "Exact", "value": allowed } }] });
    for (accepts, plaintext, mtls_allowed, mtls_denied) in [
        (InboundTls::Plaintext, true, false, false),
        (InboundTls::Permissive, true, true, false),
        (InboundTls::Strict, false, true, false),
    ] {
        let mut index = index(proxy(&[("app", "backend")]), None);
        set_policy(&mut index, &KIND, &json!({ "rules": [{ "default": rule }] }));
        let rollout = step(InboundTls::Strict, identity());
        let source = Source { index: &index, shadow: Shadow::Ignored, rollout: &rollout, purpose: Purpose::Calls };
        let enforcement = Enforcement { accepts, ..source.enforcement(SERVER, 0).unwrap() };
        let answer = |tls, uris: &[String]| enforcement.answer(MESH, tls, &Caller { uris, sni: None }).is_yes();
        let answers = [
            answer(CallTls::Plaintext, &[]),
            answer(CallTls::Mtls, std::slice::from_ref(&allowed)),
            answer(CallTls::Mtls, &["spiffe://td/b".to_owned()]),
        ];
        assert_eq!(answers, [plaintext, mtls_allowed, mtls_denied], "{accepts:?}");
    }
}

#[test]
fn destination_behind_servers_that_nobody_can_call_admits_nobody() {
    let (index, rollout) = (index(proxy(&[]), None), step(InboundTls::Strict, identity()));
    let source = Source { index: &index, shadow: Shadow::Ignored, rollout: &rollout, purpose: Purpose::Calls };
    assert_eq!(source.inbounds([(SERVER, 0)]), Admission::By(Vec::new()));
}
