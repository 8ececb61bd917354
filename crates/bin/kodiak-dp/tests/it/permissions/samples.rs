//! Random policies and callers, from few words so that they meet.

use kodiak_policies::mesh_traffic_permission::{MeshTrafficPermission, uris};
use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};

pub(super) const MESH: &str = "default";
pub(super) const SERVICES: &[&str] = &["a", "b", "b-2"];
/// What callers ask for.
pub(super) const SERVERS: &[&str] = &["x.mesh", "y.mesh", "other.mesh"];

const KEYS: &[&str] = &["env", "env/x"];
const VALUES: &[&str] = &["v", "w"];
const IDENTITY: &str = "spiffe://east.local/ns/x/sa/y";

/// By tags or by identities; seldom both, because then tags do not count.
pub(super) fn policies() -> impl Strategy<Value = Vec<MeshTrafficPermission>> {
    let from = || vec(from_item(), 1..7).prop_map(|items| json!({ "from": items }));
    let rules = || vec(rule(), 1..3).prop_map(|rules| json!({ "rules": rules }));
    let mixed = (from(), rules()).prop_map(|(a, b)| vec![a, b]);
    let policies = prop_oneof![4 => vec(from(), 1..3), 4 => vec(rules(), 1..3), 1 => mixed];
    policies.prop_map(|specs| specs.into_iter().map(|spec| serde_json::from_value(spec).unwrap()).collect())
}

fn from_item() -> impl Strategy<Value = Value> {
    let values = select(&["v", "w", "*"]).prop_map(str::to_owned);
    let tags = btree_map(select(KEYS).prop_map(str::to_owned), values, 0..3);
    let target = prop_oneof![
        1 => Just(json!({ "kind": "Mesh" })),
        2 => tags.clone().prop_map(|tags| json!({ "kind": "MeshSubset", "tags": tags })),
        2 => select(SERVICES).prop_map(|name| json!({ "kind": "MeshService", "name": name })),
        2 => (select(SERVICES), tags).prop_map(|(name, tags)| {
            json!({ "kind": "MeshServiceSubset", "name": name, "tags": tags })
        }),
    ];
    let actions = select(&["Allow", "Deny", "AllowWithShadowDeny"]);
    (target, actions).prop_map(|(target, action)| json!({ "targetRef": target, "default": { "action": action } }))
}

fn rule() -> impl Strategy<Value = Value> {
    let exact =
        prop_oneof![select(SERVICES).prop_map(|name| format!("spiffe://{MESH}/{name}")), Just(IDENTITY.to_owned()),];
    let exact = exact.prop_map(|value| json!({ "type": "Exact", "value": value }));
    let prefixes = select(&["spiffe://default/b", "spiffe://default", "spiffe://east.local/ns"]);
    let prefix = prefixes.prop_map(|value| json!({ "type": "Prefix", "value": value }));
    let id = prop_oneof![exact, prefix].prop_map(|id| ("spiffeID", id));
    let sni = select(SERVERS).prop_map(|value| ("sni", json!({ "type": "Exact", "value": value })));
    let one = (option::weighted(0.9, id), option::weighted(0.3, sni)).prop_map(|(id, sni)| {
        Value::Object(id.into_iter().chain(sni).map(|(key, value)| (key.to_owned(), value)).collect())
    });
    let list = |most| vec(one.clone(), 0..=most);
    (list(2), list(1), list(2)).prop_map(
        |(allow, deny, shadow)| json!({ "default": { "allow": allow, "deny": deny, "allowWithShadowDeny": shadow } }),
    )
}

#[derive(Debug, Clone)]
pub(super) struct Someone {
    pub(super) uris: Vec<String>,
    pub(super) sni: Option<&'static str>,
}

/// A proxy of one or two services, or a workload with an identity of its own.
pub(super) fn someone() -> impl Strategy<Value = Someone> {
    let tags = btree_map(select(KEYS).prop_map(str::to_owned), select(VALUES).prop_map(str::to_owned), 0..3);
    let inbound = (select(SERVICES), tags).prop_map(|(service, mut tags)| {
        tags.insert("kuma.io/service".to_owned(), service.to_owned());
        tags
    });
    let tagged = vec(inbound, 1..3).prop_map(|sets| uris(MESH, &sets));
    let uris = prop_oneof![4 => tagged, 1 => Just(vec![IDENTITY.to_owned()])];
    (uris, option::of(select(SERVERS))).prop_map(|(uris, sni)| Someone { uris, sni })
}
