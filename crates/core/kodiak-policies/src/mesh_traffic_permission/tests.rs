//! The verdict follows the policies, and the filters follow the verdict.

mod interpreter;
mod samples;

use kodiak_envoy::envoy::config::rbac::v3::{Principal, principal::Identifier};
use kodiak_model::policy::Body;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{Action, Caller, KIND, MeshTrafficPermission, Permissions, TrafficPermissions, Verdict, uris};
use crate::Entry;
use crate::order::{HttpStep, NetworkStep};
use crate::samples::{as_http, as_tcp, http, inbound, tcp};
use interpreter::{effect_of_http, effect_of_network, principals};
use samples::{MESH, TestCaller, by_definition, policies, test_caller};

fn policy(spec: Value) -> MeshTrafficPermission {
    serde_json::from_value(spec).unwrap()
}

/// With the KRIs `0`, `1` and so on.
fn entries(policies: &[MeshTrafficPermission]) -> Vec<Entry> {
    let mut entries = Vec::new();
    for (n, policy) in policies.iter().enumerate() {
        let body = Body::read(&KIND.policy.unwrap(), &serde_json::to_value(policy).unwrap()).unwrap();
        entries.extend(Entry::of(&n.to_string().into(), &body));
    }
    entries
}

fn permissions(policies: &[MeshTrafficPermission]) -> Permissions {
    Permissions::of(&entries(policies))
}

fn from(items: &[(Value, &str)]) -> MeshTrafficPermission {
    let items = items.iter().map(|(target, action)| json!({ "targetRef": target, "default": { "action": action } }));
    policy(json!({ "from": items.collect::<Vec<_>>() }))
}

fn service(name: &str) -> Value {
    json!({ "kind": "MeshService", "name": name })
}

fn service_uris(name: &str) -> Vec<String> {
    uris(MESH, &[[("kuma.io/service".to_owned(), name.to_owned()), ("env".to_owned(), "dev".to_owned())].into()])
}

/// Also evaluates the filters.
#[track_caller]
fn check(permissions: &Permissions, caller: &Caller<'_>, action: Action, policy: Option<&str>) {
    assert_eq!(permissions.verdict(MESH, caller), Verdict { action, policy }, "{caller:?}");
    assert_eq!(effect_of_http(permissions, caller), action, "{caller:?}");
    assert_eq!(effect_of_network(permissions, caller), action, "{caller:?}");
}

proptest! {
    /// With the SNI of a call, no permission is left that asks for another one.
    #[test]
    fn permissions_at_an_sni_decide_as_all_of_them(list in policies(), caller in test_caller()) {
        let all = std::sync::Arc::new(permissions(&list));
        let sni = caller.sni.unwrap_or("none.mesh");
        let caller = Caller { uris: &caller.uris, sni: Some(sni) };
        let without = Caller { sni: None, ..caller };
        let at_sni = all.at(sni);
        prop_assert_eq!(all.verdict(MESH, &caller), at_sni.verdict(MESH, &without));
        prop_assert!(!at_sni.needs_sni());
    }
}

#[test]
fn denies_all_callers_without_policies() {
    assert_eq!(permissions(&[]), Permissions::default());
    for nothing in [Permissions::default(), permissions(&[policy(json!({ "from": [] }))])] {
        check(&nothing, &Caller { uris: &service_uris("a"), sni: None }, Action::Deny, None);
        assert!(!nothing.needs_sni());
    }
}

/// Another version may have stored actions, kinds and types that this one does not have.
#[test]
fn unknown_words_never_widen_access() {
    let (mesh, caller) = (json!({ "kind": "Mesh" }), service_uris("a"));
    let caller = Caller { uris: &caller, sni: None };
    let allow = from(&[(mesh.clone(), "Allow")]);
    for (target, action, expected) in [
        (service("a"), "Refuse", Action::Deny),
        (json!({ "kind": "Planet" }), "Deny", Action::Deny),
        (json!({ "kind": "Planet" }), "Allow", Action::Allow),
    ] {
        let policies = [allow.clone(), from(&[(target.clone(), action)])];
        let policy = if expected == Action::Deny { "1" } else { "0" };
        check(&permissions(&policies), &caller, expected, Some(policy));
    }
    let rules = |list: &str, id: Value| policy(json!({ "rules": [{ "default": { list: [{ "spiffeID": id }] } }] }));
    let all = rules("allow", json!({ "type": "Prefix", "value": "spiffe://" }));
    let unknown = json!({ "type": "Regex", "value": "spiffe://default/b" });
    check(&permissions(&[all.clone(), rules("deny", unknown.clone())]), &caller, Action::Deny, Some("1"));
    check(&permissions(&[rules("allow", unknown)]), &caller, Action::Deny, None);
    check(&permissions(&[all]), &caller, Action::Allow, Some("0"));
}

#[test]
fn a_denied_caller_stays_denied_beside_a_broad_allow() {
    let mesh = json!({ "kind": "Mesh" });
    let subset = json!({ "kind": "MeshSubset", "tags": { "env": "dev" } });
    let (a, b, c) = (service_uris("a"), service_uris("b"), service_uris("c"));
    let two = from(&[(mesh.clone(), "Allow"), (service("a"), "Deny"), (service("b"), "Deny")]);
    let later = from(&[(service("b"), "AllowWithShadowDeny")]);
    for (policies, expected) in [
        (vec![two.clone()], [(Action::Deny, "0"), (Action::Deny, "0"), (Action::Allow, "0")]),
        (vec![two.clone(), later], [(Action::Deny, "0"), (Action::AllowWithShadowDeny, "1"), (Action::Allow, "0")]),
        (vec![two.clone(), from(&[(mesh, "Allow")])], [(Action::Allow, "1"); 3]),
        (vec![two, from(&[(subset, "Deny")])], [(Action::Deny, "1"); 3]),
    ] {
        for (uris, (action, policy)) in [&a, &b, &c].into_iter().zip(expected) {
            check(&permissions(&policies), &Caller { uris, sni: None }, action, Some(policy));
        }
    }
}

#[test]
fn rules_override_every_from() {
    let exact = |value: &str| json!({ "spiffeID": { "type": "Exact", "value": value } });
    let rules = policy(json!({ "rules": [{ "default": { "allow": [exact("spiffe://default/a")] } }] }));
    let all = permissions(&[rules, from(&[(json!({ "kind": "Mesh" }), "Allow")])]);
    check(&all, &Caller { uris: &service_uris("a"), sni: None }, Action::Allow, Some("0"));
    check(&all, &Caller { uris: &service_uris("b"), sni: None }, Action::Deny, None);
}

#[test]
fn match_without_conditions_matches_all_callers() {
    let everybody = permissions(&[policy(json!({ "rules": [{ "default": {
        "allow": [{}],
        "deny": [{ "sni": { "type": "Exact", "value": "secret.mesh" } }],
        "allowWithShadowDeny": [{ "spiffeID": { "type": "Prefix", "value": "spiffe://default/b" } }],
    } }] }))]);
    assert!(everybody.needs_sni());
    let (a, b) = (service_uris("a"), service_uris("b"));
    check(&everybody, &Caller { uris: &a, sni: None }, Action::Allow, Some("0"));
    check(&everybody, &Caller { uris: &[], sni: Some("other.mesh") }, Action::Allow, Some("0"));
    check(&everybody, &Caller { uris: &b, sni: None }, Action::AllowWithShadowDeny, Some("0"));
    check(&everybody, &Caller { uris: &b, sni: Some("SECRET.mesh") }, Action::Deny, Some("0"));
}

#[test]
fn prefix_matches_whole_segments() {
    let allowed = permissions(&[policy(json!({ "rules": [{ "default": {
        "allow": [{ "spiffeID": { "type": "Prefix", "value": "spiffe://td/ns/shop" } }],
    } }] }))]);
    for (uri, action) in [
        ("spiffe://td/ns/shop", Action::Allow),
        ("spiffe://td/ns/shop/sa/web", Action::Allow),
        ("spiffe://td/ns/shopping/sa/web", Action::Deny),
        ("spiffe://td/ns", Action::Deny),
    ] {
        let verdict = allowed.verdict("default", &Caller { uris: &[uri.to_owned()], sni: None });
        assert_eq!(verdict.action, action, "{uri}");
    }
}

#[test]
fn overridden_items_have_no_effect() {
    let mesh = json!({ "kind": "Mesh" });
    let plain = from(&[(mesh.clone(), "Allow"), (service("a"), "Deny")]);
    let same = [
        from(&[(service("b"), "Deny"), (mesh.clone(), "Allow"), (service("a"), "Deny")]),
        from(&[(mesh.clone(), "Deny"), (mesh.clone(), "Allow"), (service("a"), "Allow"), (service("a"), "Deny")]),
        from(&[
            (json!({ "kind": "MeshSubset" }), "Allow"),
            (json!({ "kind": "MeshService", "labels": { "x": "y" } }), "Deny"),
            (service("a"), "Deny"),
        ]),
    ];
    for each in same {
        assert_eq!(permissions(std::slice::from_ref(&each)), permissions(std::slice::from_ref(&plain)), "{each:?}");
    }
}

#[test]
fn filters_are_added_only_to_mtls_chains() {
    let deny = permissions(&[]);
    let served = inbound(&TrafficPermissions, &[], &http(vec![]));
    assert_eq!(served.chains[0].carrier, http(vec![]));
    let filters: Vec<_> = deny.http_filters(MESH).into_iter().map(|filter| (HttpStep::Permissions, filter)).collect();
    assert_eq!(as_http(&served.chains[1].carrier).filters, filters);
    assert_eq!(filters.len(), 1);

    let served = inbound(&TrafficPermissions, &[], &tcp());
    assert_eq!(served.chains[0].carrier, tcp());
    let filters = deny.network_filters(MESH, "inbound_10_0_0_1_80.").into_iter();
    let filters: Vec<_> = filters.map(|filter| (NetworkStep::Permissions, filter)).collect();
    assert_eq!(as_tcp(&served.chains[1].carrier).filters, filters);
    assert!(!served.inspects_tls);
}

#[test]
fn tls_inspector_is_enabled_for_sni_matches() {
    let sni = json!({ "sni": { "type": "Exact", "value": "x.mesh" } });
    let policy = policy(json!({ "rules": [{ "default": { "allow": [sni] } }] }));
    let mut served = inbound(&TrafficPermissions, &entries(std::slice::from_ref(&policy)), &tcp());
    assert!(served.inspects_tls);
    served.inspects_tls = false;
    served.chains.retain(|chain| !chain.mtls);
    let before = served.clone();
    crate::Policy::inbound(&TrafficPermissions, &entries(&[policy]), &mut served);
    assert_eq!(served, before);
}

/// Worst case: allowed and denied items alternate.
#[test]
fn alternating_items_keep_principals_small_and_flat() {
    let items: Vec<_> =
        (0..1024).map(|n| (service(&format!("s{n}")), if n % 2 == 0 { "Allow" } else { "Deny" })).collect();
    let principals = principals(&permissions(&[from(&items)]));
    let (leaves, depth) = principals.iter().map(size).fold((0, 0), |(a, b), (c, d)| (a + c, b.max(d)));
    assert!(leaves <= 512 + 512 * 10, "{leaves}");
    assert!(depth <= 1 + 3 * 10, "{depth}");
}

/// Number of conditions, and nesting depth of principals.
fn size(principal: &Principal) -> (usize, usize) {
    match principal.identifier.as_ref().unwrap() {
        Identifier::AndIds(set) | Identifier::OrIds(set) => {
            let (leaves, depth) = set.ids.iter().map(size).fold((0, 0), |(a, b), (c, d)| (a + c, b.max(d)));
            (leaves, depth + 1)
        }
        Identifier::NotId(id) => {
            let (leaves, depth) = size(id);
            (leaves, depth + 1)
        }
        _ => (1, 1),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn verdict_equals_the_definition(policies in policies(), callers in prop::collection::vec(test_caller(), 1..6)) {
        let permissions = permissions(&policies);
        for TestCaller { tag_sets, uris, sni } in &callers {
            let caller = Caller { uris, sni: *sni };
            let (action, decided) = by_definition(&policies, tag_sets, &caller);
            let verdict = permissions.verdict(MESH, &caller);
            prop_assert_eq!(verdict.action, action, "{:?}", caller);
            prop_assert_eq!(verdict.policy.map(str::to_owned), decided.map(|n| n.to_string()), "{:?}", caller);
        }
    }

    #[test]
    fn filters_equal_the_verdict(policies in policies(), callers in prop::collection::vec(test_caller(), 1..6)) {
        let permissions = permissions(&policies);
        for TestCaller { uris, sni, .. } in &callers {
            let caller = Caller { uris, sni: *sni };
            let action = permissions.verdict(MESH, &caller).action;
            prop_assert_eq!(effect_of_http(&permissions, &caller), action, "{:?}", caller);
            prop_assert_eq!(effect_of_network(&permissions, &caller), action, "{:?}", caller);
        }
    }

    #[test]
    fn needs_sni_only_for_sni_matches(policies in policies(), test_caller in test_caller()) {
        let permissions = permissions(&policies);
        if !permissions.needs_sni() {
            let with = |sni| permissions.verdict(MESH, &Caller { uris: &test_caller.uris, sni });
            prop_assert_eq!(with(None), with(Some("x.mesh")));
        }
    }
}
