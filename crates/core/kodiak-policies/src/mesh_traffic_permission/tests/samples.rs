//! Random policies and callers over few values, so that they match, and a naive evaluation of the policies.

use std::collections::BTreeMap;

use kodiak_model::source_match::{Match, SpiffeIdMatchType};
use kodiak_model::{Choice, TargetRef};
use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};

use crate::mesh_traffic_permission::{Action, Caller, MeshTrafficPermission, uris};

pub(super) const MESH: &str = "default";

const SERVICES: &[&str] = &["a", "b", "b-2"];
const KEYS: &[&str] = &["env", "env/x", "kuma.io/zone"];
const VALUES: &[&str] = &["v", "w"];
const ACTIONS: &[&str] = &["Allow", "Deny", "AllowWithShadowDeny"];
const IDS: &[&str] =
    &["spiffe://default/a", "spiffe://default/b", "spiffe://default/b-2", "spiffe://east.local/ns/x/sa/y"];
const PREFIXES: &[&str] = &["spiffe://default/b", "spiffe://default", "spiffe://east.local/ns/x"];
const NAMES: &[&str] = &["x.mesh", "y.mesh"];

pub(super) fn policies() -> impl Strategy<Value = Vec<MeshTrafficPermission>> {
    let from = || vec(from_item(), 0..7).prop_map(|items| json!({ "from": items }));
    let rules = || vec(rule(), 0..4).prop_map(|rules| json!({ "rules": rules }));
    let mixed = prop_oneof![4 => from(), 1 => rules()];
    let policies = prop_oneof![vec(from(), 0..4), vec(rules(), 0..4), vec(mixed, 0..4)];
    policies.prop_map(|specs| specs.into_iter().map(|spec| serde_json::from_value(spec).unwrap()).collect())
}

fn from_item() -> impl Strategy<Value = Value> {
    let values = select(&["v", "w", "*"]).prop_map(str::to_owned);
    let tags = || btree_map(select(KEYS).prop_map(str::to_owned), values.clone(), 0..3);
    let target = prop_oneof![
        1 => Just(json!({ "kind": "Mesh" })),
        2 => tags().prop_map(|tags| json!({ "kind": "MeshSubset", "tags": tags })),
        2 => select(SERVICES).prop_map(|name| json!({ "kind": "MeshService", "name": name })),
        2 => (select(SERVICES), tags()).prop_map(|(name, tags)| {
            json!({ "kind": "MeshServiceSubset", "name": name, "tags": tags })
        }),
        1 => select(SERVICES).prop_map(|name| json!({ "kind": "MeshSubset", "tags": { "kuma.io/service": name } })),
    ];
    (target, select(ACTIONS))
        .prop_map(|(target, action)| json!({ "targetRef": target, "default": { "action": action } }))
}

fn rule() -> impl Strategy<Value = Value> {
    let exact = select(IDS).prop_map(|value| json!({ "type": "Exact", "value": value }));
    let prefix = select(PREFIXES).prop_map(|value| json!({ "type": "Prefix", "value": value }));
    let id = prop_oneof![exact, prefix].prop_map(|id| ("spiffeID", id));
    let sni = select(NAMES).prop_map(|value| ("sni", json!({ "type": "Exact", "value": value })));
    let one = (option::weighted(0.8, id), option::weighted(0.3, sni)).prop_map(|(id, sni)| {
        Value::Object(id.into_iter().chain(sni).map(|(key, value)| (key.to_owned(), value)).collect())
    });
    let list = || vec(one.clone(), 0..3);
    (list(), list(), list()).prop_map(
        |(allow, deny, shadow)| json!({ "default": { "allow": allow, "deny": deny, "allowWithShadowDeny": shadow } }),
    )
}

type TagSet = BTreeMap<String, String>;

#[derive(Debug, Clone)]
pub(super) struct TestCaller {
    /// Empty for a caller whose SPIFFE ID is not from tags.
    pub(super) tag_sets: Vec<TagSet>,
    pub(super) uris: Vec<String>,
    pub(super) sni: Option<&'static str>,
}

/// A proxy of up to three services, or a workload with its own SPIFFE ID.
pub(super) fn test_caller() -> impl Strategy<Value = TestCaller> {
    let tags = btree_map(select(KEYS).prop_map(str::to_owned), select(VALUES).prop_map(str::to_owned), 0..3);
    let inbound = (select(SERVICES), tags).prop_map(|(service, mut tags)| {
        tags.insert("kuma.io/service".to_owned(), service.to_owned());
        tags
    });
    let tagged = vec(inbound, 1..4).prop_map(|sets| (sets.clone(), uris(MESH, &sets)));
    let identified = select(IDS).prop_map(|id| (Vec::new(), vec![id.to_owned()]));
    let sni = option::of(select(&["x.mesh", "y.mesh", "X.mesh", "other.mesh"]));
    (prop_oneof![3 => tagged, 1 => identified], sni).prop_map(|((tag_sets, uris), sni)| TestCaller {
        tag_sets,
        uris,
        sni,
    })
}

/// Action, and the index of the policy that decided.
pub(super) fn by_definition(
    policies: &[MeshTrafficPermission],
    tag_sets: &[TagSet],
    caller: &Caller<'_>,
) -> (Action, Option<usize>) {
    let uses_rules = |policy: &MeshTrafficPermission| policy.rules.as_ref().is_some_and(|rules| !rules.is_empty());
    if policies.iter().any(uses_rules) { by_rules(policies, caller) } else { by_from(policies, tag_sets, caller) }
}

/// Every matching item overrides earlier ones.
fn by_from(policies: &[MeshTrafficPermission], tag_sets: &[TagSet], caller: &Caller<'_>) -> (Action, Option<usize>) {
    let mut result = (Action::Deny, None);
    for (n, policy) in policies.iter().enumerate() {
        for item in policy.from.iter().flatten() {
            if has_all(&item.target_ref, tag_sets, caller) {
                result = (item.default.action.as_ref().and_then(Choice::known).unwrap(), Some(n));
            }
        }
    }
    result
}

fn has_all(target: &TargetRef, tag_sets: &[TagSet], caller: &Caller<'_>) -> bool {
    let has = |key: &str, value: &str| {
        let identity = key == "kuma.io/service" && caller.uris.contains(&format!("spiffe://{MESH}/{value}"));
        identity || tag_sets.iter().filter_map(|tags| tags.get(key)).any(|own| value == "*" || own == value)
    };
    target.name.as_ref().is_none_or(|name| has("kuma.io/service", name))
        && target.tags.iter().flatten().all(|(key, value)| has(key, value))
}

/// Denied by any list; otherwise allowed by any, and recorded if it is a shadow denial.
fn by_rules(policies: &[MeshTrafficPermission], caller: &Caller<'_>) -> (Action, Option<usize>) {
    let mut found = [None; 3];
    for (n, policy) in policies.iter().enumerate() {
        for rule in policy.rules.iter().flatten() {
            let lists = [&rule.default.deny, &rule.default.allow_with_shadow_deny, &rule.default.allow];
            for (found, list) in found.iter_mut().zip(lists) {
                if list.iter().flatten().any(|one| is_matched(one, caller)) {
                    *found = Some(n);
                }
            }
        }
    }
    match found {
        [Some(n), ..] => (Action::Deny, Some(n)),
        [None, Some(n), _] => (Action::AllowWithShadowDeny, Some(n)),
        [None, None, Some(n)] => (Action::Allow, Some(n)),
        [None, None, None] => (Action::Deny, None),
    }
}

fn is_matched(one: &Match, caller: &Caller<'_>) -> bool {
    let id = one.spiffe_id.as_ref().is_none_or(|id| {
        let value = id.value.as_deref().unwrap();
        let exact = id.match_type == Some(Choice::Known(SpiffeIdMatchType::Exact));
        let below = format!("{value}/");
        caller.uris.iter().any(|uri| uri == value || (!exact && uri.starts_with(&below)))
    });
    let asked = caller.sni.map(str::to_ascii_lowercase);
    id && one.sni.as_ref().is_none_or(|sni| asked.as_deref() == sni.value.as_deref())
}
