//! Issuers of certificates, TLS of single inbounds, permissions by SPIFFE IDs and ports, and modes of reachability.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};

use super::extras::TEAMS;
use super::policies::Written;
use super::{MAIN_PORT, MESH, Mtls, SECOND_PORT, SERVICES};

/// Trust domains of MeshIdentities.
const DOMAINS: &[&str] = &["id.local", "other.local"];
const MODES: &[&str] = &["off", "shadow", "on", "on"];

#[derive(Debug, Clone, Default)]
pub(super) struct Security {
    /// Specs of MeshIdentities.
    identities: Vec<Value>,
    /// Mode of reachability of the mesh.
    pub(super) mode: Option<&'static str>,
    /// Those of Dataplanes.
    pub(super) proxies: Vec<Option<&'static str>>,
    /// `reachableBackends` of Dataplanes.
    pub(super) lists: Vec<Option<Value>>,
}

impl Security {
    pub(super) fn documents(&self) -> impl Iterator<Item = Value> + '_ {
        self.identities.iter().enumerate().map(
            |(n, spec)| json!({ "type": "MeshIdentity", "mesh": MESH, "name": format!("identity-{n}"), "spec": spec }),
        )
    }

    /// They issue in this mode of MeshServices alone.
    pub(super) fn is_exclusive(&self) -> bool {
        !self.identities.is_empty()
    }
}

/// Certificates from a backend, from MeshIdentities, or from both.
pub(super) fn security() -> impl Strategy<Value = (Mtls, Security)> {
    let backend = || select(&[Mtls::Permissive, Mtls::Strict, Mtls::Strict][..]);
    let issuers = prop_oneof![
        1 => Just((Mtls::Off, Vec::new())),
        3 => backend().prop_map(|mtls| (mtls, Vec::new())),
        4 => vec(identity(), 1..4).prop_map(|identities| (Mtls::Off, identities)),
        4 => (backend(), vec(identity(), 1..4)),
    ];
    let mode = proptest::option::of(select(MODES));
    let proxies = vec(proptest::option::weighted(0.2, select(MODES)), 5);
    let lists = vec(proptest::option::weighted(0.15, list()), 5);
    (issuers, mode, proxies, lists)
        .prop_map(|((mtls, identities), mode, proxies, lists)| (mtls, Security { identities, mode, proxies, lists }))
}

fn identity() -> impl Strategy<Value = Value> {
    let labels = prop_oneof![
        3 => Just(json!({})),
        1 => select(TEAMS).prop_map(|team| json!({ "team": team })),
        1 => select(SERVICES).prop_map(|app| json!({ "app": app })),
    ];
    let provider = prop_oneof![
        5 => Just(Some(bundled("Enabled"))),
        1 => Just(Some(bundled("Disabled"))),
        1 => Just(None),
    ];
    (labels, select(DOMAINS), provider).prop_map(|(labels, domain, provider)| {
        let id = json!({ "trustDomain": domain, "path": "/{{ label \"app\" }}" });
        let mut spec = json!({ "selector": { "dataplane": { "matchLabels": labels } }, "spiffeID": id });
        if let Some(provider) = provider {
            spec["provider"] = provider;
        }
        spec
    })
}

fn bundled(trust: &str) -> Value {
    json!({ "type": "Bundled", "bundled": {
        "insecureAllowSelfSigned": true, "autogenerate": { "enabled": true }, "meshTrustCreation": trust,
    } })
}

fn list() -> impl Strategy<Value = Value> {
    let reference = prop_oneof![
        select(SERVICES).prop_map(|name| json!({ "kind": "MeshService", "name": name })),
        select(TEAMS).prop_map(|team| json!({ "kind": "MeshService", "labels": { "team": team } })),
    ];
    vec(reference, 0..3).prop_map(|refs| json!({ "refs": refs }))
}

/// MeshTLS and MeshTrafficPermissions of single inbounds, and of SPIFFE IDs.
pub(super) fn written() -> impl Strategy<Value = Written> {
    prop_oneof![
        2 => tls().prop_map(|spec| ("MeshTLS", spec)),
        3 => permission().prop_map(|spec| ("MeshTrafficPermission", spec)),
    ]
    .prop_map(Written::new)
}

/// Proxies, or one of their inbounds.
fn target() -> impl Strategy<Value = Value> {
    let port = || select(&[MAIN_PORT, SECOND_PORT][..]);
    let service = |(app, port): (&str, u16)| json!({ "kind": "Dataplane", "labels": { "app": app }, "sectionName": port.to_string() });
    prop_oneof![
        1 => Just(json!({ "kind": "Mesh" })),
        2 => (select(SERVICES), port()).prop_map(service),
        1 => port().prop_map(|port| json!({ "kind": "Dataplane", "sectionName": port.to_string() })),
        1 => select(SERVICES).prop_map(|app| json!({ "kind": "Dataplane", "labels": { "app": app } })),
    ]
}

fn tls() -> impl Strategy<Value = Value> {
    let mode = select(&["Strict", "Permissive"][..]);
    (target(), mode)
        .prop_map(|(target, mode)| json!({ "targetRef": target, "rules": [{ "default": { "mode": mode } }] }))
}

fn permission() -> impl Strategy<Value = Value> {
    let domain = || select(&[MESH, "id.local", "other.local"][..]);
    let one = prop_oneof![
        4 => (domain(), select(SERVICES)).prop_map(|(domain, service)| {
            json!({ "spiffeID": { "type": "Exact", "value": format!("spiffe://{domain}/{service}") } })
        }),
        2 => domain().prop_map(|domain| json!({ "spiffeID": { "type": "Prefix", "value": format!("spiffe://{domain}") } })),
        1 => Just(json!({})),
    ];
    let list = select(&["allow", "allow", "allow", "deny", "allowWithShadowDeny"][..]);
    let lists = proptest::collection::btree_map(list, vec(one, 1..3), 1..3);
    (target(), lists).prop_map(|(target, lists)| json!({ "targetRef": target, "rules": [{ "default": lists }] }))
}
