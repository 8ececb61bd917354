//! Random policies, as user documents.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};

use super::{MESH, PATHS, SERVICES, VERSIONS};

#[derive(Debug, Clone)]
pub(super) struct Written {
    kind: &'static str,
    spec: Value,
    /// A shadow policy, which must change nothing.
    shadow: bool,
}

impl Written {
    pub(super) fn new((kind, spec): (&'static str, Value)) -> Self {
        Self { kind, spec, shadow: false }
    }

    /// Named by its index.
    pub(super) fn document(&self, n: usize) -> Value {
        let Self { kind, spec, shadow } = self;
        let labels = if *shadow { json!({ "kuma.io/effect": "shadow" }) } else { json!({}) };
        json!({ "type": kind, "mesh": MESH, "name": name(n), "labels": labels, "spec": spec })
    }
}

fn name(n: usize) -> String {
    format!("policy-{n}")
}

pub(super) fn written() -> impl Strategy<Value = Written> {
    let written = prop_oneof![
        3 => permissions().prop_map(|spec| ("MeshTrafficPermission", spec)),
        1 => identities().prop_map(|spec| ("MeshTrafficPermission", spec)),
        4 => http_routes().prop_map(|spec| ("MeshHTTPRoute", spec)),
        1 => tcp_routes().prop_map(|spec| ("MeshTCPRoute", spec)),
        3 => timeouts().prop_map(|spec| ("MeshTimeout", spec)),
        2 => retries().prop_map(|spec| ("MeshRetry", spec)),
    ];
    (written, proptest::bool::weighted(0.1)).prop_map(|((kind, spec), shadow)| Written { kind, spec, shadow })
}

/// Top-level `targetRef`s.
pub(super) fn targets() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(json!({ "kind": "Mesh" })),
        select(SERVICES).prop_map(|name| json!({ "kind": "MeshService", "name": name })),
        select(VERSIONS).prop_map(|version| json!({ "kind": "MeshSubset", "tags": { "version": version } })),
        select(SERVICES).prop_map(|app| json!({ "kind": "Dataplane", "labels": { "app": app } })),
    ]
}

fn permissions() -> impl Strategy<Value = Value> {
    let subset = |(name, version)| json!({ "kind": "MeshServiceSubset", "name": name, "tags": { "version": version } });
    let caller = prop_oneof![
        Just(json!({ "kind": "Mesh" })),
        select(SERVICES).prop_map(|name| json!({ "kind": "MeshService", "name": name })),
        select(VERSIONS).prop_map(|version| json!({ "kind": "MeshSubset", "tags": { "version": version } })),
        (select(SERVICES), select(VERSIONS)).prop_map(subset),
    ];
    let action = select(&["Allow", "Allow", "Deny", "AllowWithShadowDeny"][..]);
    let item =
        (caller, action).prop_map(|(caller, action)| json!({ "targetRef": caller, "default": { "action": action } }));
    (targets(), vec(item, 1..4)).prop_map(|(target, from)| json!({ "targetRef": target, "from": from }))
}

fn identities() -> impl Strategy<Value = Value> {
    let identity = (select(&["Exact", "Prefix"][..]), select(SERVICES));
    let identity = identity.prop_map(
        |(how, service)| json!({ "spiffeID": { "type": how, "value": format!("spiffe://{MESH}/{service}") } }),
    );
    // Callers send the SNI of services of the mesh, never this one.
    let elsewhere = Just(json!({ "sni": { "type": "Exact", "value": "elsewhere.example" } }));
    let one = prop_oneof![4 => identity, 1 => Just(json!({})), 1 => elsewhere];
    let list = select(&["deny", "allow", "allowWithShadowDeny"][..]);
    let lists = proptest::collection::btree_map(list, vec(one, 1..3), 1..3);
    (targets(), lists).prop_map(|(target, lists)| json!({ "targetRef": target, "rules": [{ "default": lists }] }))
}

/// One of them may not exist.
fn backends() -> impl Strategy<Value = Value> {
    let named = (select(&["a", "ab", "b", "gone"][..]), 0_u32..4);
    let named = named.prop_map(|(name, weight)| json!({ "kind": "MeshService", "name": name, "weight": weight }));
    let subset = (select(SERVICES), select(VERSIONS), 1_u32..4).prop_map(|(name, version, weight)| {
        json!({ "kind": "MeshServiceSubset", "name": name, "tags": { "version": version }, "weight": weight })
    });
    prop_oneof![2 => named, 1 => subset]
}

pub(super) fn matches() -> impl Strategy<Value = Value> {
    let path = prop_oneof![
        select(PATHS).prop_map(|path| json!({ "type": "Exact", "value": path })),
        select(&["/", "/a", "/a/b"][..]).prop_map(|path| json!({ "type": "PathPrefix", "value": path })),
        select(&["/a.*", "/."][..]).prop_map(|path| json!({ "type": "RegularExpression", "value": path })),
    ];
    let header = prop_oneof![
        select(&["x", "xy"][..]).prop_map(|value| json!({ "type": "Exact", "name": "x-h", "value": value })),
        Just(json!({ "type": "Prefix", "name": "x-h", "value": "x" })),
        Just(json!({ "type": "Present", "name": "x-h" })),
        Just(json!({ "type": "Absent", "name": "x-h" })),
    ];
    let parts = (proptest::option::of(path), any::<bool>(), proptest::option::of(header));
    parts.prop_map(|(path, get, header)| {
        let mut one = json!({});
        if let Some(path) = path {
            one["path"] = path;
        }
        if get {
            one["method"] = json!("GET");
        }
        if let Some(header) = header {
            one["headers"] = json!([header]);
        }
        one
    })
}

fn http_routes() -> impl Strategy<Value = Value> {
    let conf = proptest::option::of(vec(backends(), 1..4));
    let conf = conf.prop_map(|refs| refs.map_or_else(|| json!({}), |refs| json!({ "backendRefs": refs })));
    let rule = (vec(matches(), 1..3), conf).prop_map(|(matches, conf)| json!({ "matches": matches, "default": conf }));
    (targets(), select(SERVICES), vec(rule, 1..4)).prop_map(|(target, service, rules)| {
        let to = json!([{ "targetRef": { "kind": "MeshService", "name": service }, "rules": rules }]);
        json!({ "targetRef": target, "to": to })
    })
}

fn tcp_routes() -> impl Strategy<Value = Value> {
    (targets(), select(SERVICES), vec(backends(), 1..3)).prop_map(|(target, service, refs)| {
        let rules = json!([{ "default": { "backendRefs": refs } }]);
        json!({ "targetRef": target, "to": [{ "targetRef": { "kind": "MeshService", "name": service }, "rules": rules }] })
    })
}

/// For outbound traffic, for one route of it, and for inbound traffic.
fn timeouts() -> impl Strategy<Value = Value> {
    let conf = || (0_u32..9).prop_map(|seconds| json!({ "http": { "requestTimeout": format!("{seconds}s") } }));
    let route = (0_usize..8).prop_map(|n| json!({ "kind": "MeshHTTPRoute", "name": name(n) }));
    let whole_mesh = json!({ "kind": "Mesh" });
    prop_oneof![
        (targets(), destinations(), conf()).prop_map(
            |(target, to, conf)| json!({ "targetRef": target, "to": [{ "targetRef": to, "default": conf }] })
        ),
        (route, conf()).prop_map(move |(route, conf)| {
            json!({ "targetRef": route, "to": [{ "targetRef": whole_mesh, "default": conf }] })
        }),
        (targets(), conf()).prop_map(|(target, conf)| json!({ "targetRef": target, "rules": [{ "default": conf }] })),
    ]
}

fn retries() -> impl Strategy<Value = Value> {
    let conf = (select(&["http", "grpc"][..]), 0_u32..4);
    let conf = conf.prop_map(|(protocol, count)| json!({ protocol: { "numRetries": count } }));
    (targets(), destinations(), conf)
        .prop_map(|(target, to, conf)| json!({ "targetRef": target, "to": [{ "targetRef": to, "default": conf }] }))
}

fn destinations() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(json!({ "kind": "Mesh" })),
        select(SERVICES).prop_map(|name| json!({ "kind": "MeshService", "name": name })),
    ]
}
