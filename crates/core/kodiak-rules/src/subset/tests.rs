//! Tables of rules by tags, and the limit of combinations.

use std::{fmt::Write as _, sync::Arc};

use serde_json::{Value, json};

use super::*;
use crate::fixtures::{FAULT, HTTP_ROUTE, TIMEOUT, policy, resources};

fn subset(tags: &Value) -> Value {
    json!({ "kind": "MeshSubset", "tags": tags })
}

/// One item for each target, with its index as the conf.
fn items(list: &str, targets: &[Value]) -> Value {
    let items = targets.iter().enumerate().map(|(n, target)| json!({ "targetRef": target, "default": { "n": n } }));
    json!({ list: items.collect::<Vec<_>>() })
}

/// `a=1 !b=2: {"n":0} by x, y`
fn shown(rules: &[Rule]) -> Vec<String> {
    let mut lines = Vec::new();
    for Rule { subset, conf, origins, .. } in rules {
        let mut line = String::new();
        for Tag { key, value, not } in subset {
            let key = key.trim_start_matches("kuma.io/");
            write!(line, "{}{key}={value} ", if *not { "!" } else { "" }).unwrap();
        }
        let names: Vec<&str> = origins.iter().map(|policy| &*policy.name).collect();
        lines.push(format!("{}: {} by {}", line.trim_end(), conf.json(), names.join(", ")));
    }
    lines
}

#[test]
fn broad_item_is_split_at_each_narrow_one() {
    let targets = [json!({ "kind": "Mesh" }), subset(&json!({ "app": "a" })), subset(&json!({ "app": "b" }))];
    let spec = json!({ "from": [
        { "targetRef": targets[0], "default": { "action": "Allow" } },
        { "targetRef": targets[1], "default": { "action": "Deny" } },
        { "targetRef": targets[2], "default": { "action": "Deny" } },
    ] });
    let rules = from(&[policy(&FAULT, "p", &spec)]).unwrap();
    let expected = [
        r#"app=b: {"action":"Deny"} by p"#,
        r#"app=a: {"action":"Deny"} by p"#,
        r#"!app=b: {"action":"Allow"} by p"#,
        r#"!app=a: {"action":"Allow"} by p"#,
    ];
    assert_eq!(shown(&rules), expected);
    // The first one that matches a caller applies.
    for (app, action) in [("a", "Deny"), ("b", "Deny"), ("c", "Allow")] {
        assert_eq!(find(&rules, &[("app", app)]).unwrap().conf.json()["action"], action, "{app}");
    }
}

#[test]
fn combinations_start_with_the_first_tag_negated_and_those_with_most_tags_come_first() {
    let weak = policy(&FAULT, "weak", &items("from", &[subset(&json!({ "b": "1" }))]));
    let strong = policy(&FAULT, "strong", &items("from", &[subset(&json!({ "a": "1" })), json!({ "kind": "Mesh" })]));
    let expected = [
        r#"a=1 b=1: {"n":1} by weak, strong"#,
        r#"!a=1 b=1: {"n":1} by weak, strong"#,
        r#"a=1 !b=1: {"n":1} by strong"#,
        r#"!a=1 !b=1: {"n":1} by strong"#,
    ];
    assert_eq!(shown(&from(&[weak, strong]).unwrap()), expected);
}

#[test]
fn rule_for_one_caller_is_exact_where_the_list_is_not() {
    let spec = items(
        "from",
        &[subset(&json!({ "a": "1" })), subset(&json!({ "x": "1" })), subset(&json!({ "a": "1", "b": "1", "x": "2" }))],
    );
    let policies = [policy(&FAULT, "p", &spec)];
    let caller = [("a", "1"), ("b", "1"), ("x", "1")];
    // The last item creates a group without the second one, and a rule with as many tags of the caller.
    assert_eq!(shown(&[find(&from(&policies).unwrap(), &caller).unwrap().clone()]), [r#"a=1 b=1 !x=2: {"n":0} by p"#]);
    let exact = for_caller(&policies, &caller).unwrap().unwrap();
    assert_eq!(shown(&[exact]), [r#"a=1 x=1: {"n":1} by p"#]);
    assert_eq!(for_caller(&policies, &[("x", "3")]), Ok(None));
    assert!(for_caller(&different_tags(60), &caller).unwrap().is_some());
}

#[test]
fn rule_of_a_destination_merges_all_its_items() {
    let service = |name: &str| json!({ "kind": "MeshService", "name": name });
    let policies = [policy(&TIMEOUT, "p", &items("to", &[service("a"), json!({ "kind": "Mesh" }), service("b")]))];
    for (name, expected) in [("a", r#"service=a: {"n":1} by p"#), ("c", r#": {"n":1} by p"#)] {
        let rules = for_destination(&policies, &resources(), &[("kuma.io/service", name)]).unwrap();
        assert_eq!(shown(&rules), [expected], "{name}");
    }
}

#[test]
fn combinations_without_items_have_no_rule() {
    let spec = items("from", &[json!({ "kind": "MeshServiceSubset", "name": "web", "tags": { "v": "1" } })]);
    assert_eq!(shown(&from(&[policy(&FAULT, "p", &spec)]).unwrap()), [r#"service=web v=1: {"n":0} by p"#]);
    assert!(from(&[]).unwrap().is_empty());
}

#[test]
fn destinations_by_one_tag_need_no_negations() {
    let service = |name: &str| json!({ "kind": "MeshService", "name": name });
    let spec = items("to", &[service("a"), json!({ "kind": "Mesh" }), service("b"), service("a")]);
    let expected = [r#"service=a: {"n":3} by p"#, r#"service=b: {"n":2} by p"#, r#": {"n":1} by p"#];
    assert_eq!(shown(&to(&[policy(&TIMEOUT, "p", &spec)], &resources()).unwrap()), expected);
}

#[test]
fn items_for_resources_have_no_rules_by_tags() {
    for target in [
        json!({ "kind": "MeshService", "name": "web", "sectionName": "http" }),
        json!({ "kind": "MeshExternalService", "name": "far" }),
        json!({ "kind": "MeshMultiZoneService", "name": "far" }),
    ] {
        let rules = to(&[policy(&TIMEOUT, "p", &items("to", &[target]))], &resources()).unwrap();
        assert!(rules.is_empty(), "{:?}", shown(&rules));
    }
    // With a route among them, all items of a policy apply to resources.
    let route = [json!({ "kind": "Mesh" }), json!({ "kind": "MeshHTTPRoute", "name": "route" })];
    assert!(to(&[policy(&TIMEOUT, "p", &items("to", &route))], &resources()).unwrap().is_empty());
    let gateway = items("to", &[json!({ "kind": "MeshGateway", "name": "edge" })]);
    let trouble = to(&[policy(&TIMEOUT, "p", &gateway)], &resources()).unwrap_err();
    assert_eq!(trouble.to_string(), "can't represent MeshGateway as tags");
}

#[test]
fn policy_for_a_route_applies_to_each_of_its_rules() {
    let matches = json!([{ "method": "GET" }]);
    let rules = json!([{ "matches": matches, "default": {} }]);
    let route = policy(
        &HTTP_ROUTE,
        "route",
        &json!({ "to": [
        { "targetRef": { "kind": "MeshService", "name": "web" }, "rules": rules },
        { "targetRef": { "kind": "Mesh" }, "rules": rules },
    ] }),
    );
    let mut resources = resources();
    resources.insert_route(route);
    let mut spec = items("to", &[json!({ "kind": "Mesh" })]);
    spec["targetRef"] = json!({ "kind": "MeshHTTPRoute", "name": "route" });
    let hash = crate::route_hash(&matches);
    let expected = [
        format!(r#"{ROUTE_HASH}={hash} service=web: {{"n":0}} by p"#),
        format!(r#"{ROUTE_HASH}={hash} !service=web: {{"n":0}} by p"#),
    ];
    assert_eq!(shown(&to(&[policy(&TIMEOUT, "p", &spec)], &resources).unwrap()), expected);
    spec["targetRef"]["name"] = json!("other");
    assert!(matches!(to(&[policy(&TIMEOUT, "p", &spec)], &resources), Err(RuleError::Unfit(_))));
}

#[test]
fn route_rules_name_their_policy() {
    let route = |name: &str, methods: &[&str]| {
        let rules: Vec<Value> =
            methods.iter().map(|it| json!({ "matches": [{ "method": it }], "default": {} })).collect();
        policy(&HTTP_ROUTE, name, &json!({ "to": [{ "targetRef": { "kind": "Mesh" }, "rules": rules }] }))
    };
    let rules = to(&[route("weak", &["GET", "PUT"]), route("strong", &["GET"])], &resources()).unwrap();
    let [rule] = &rules[..] else { panic!("{:?}", shown(&rules)) };
    for (method, name) in [("GET", "strong"), ("PUT", "weak")] {
        assert_eq!(&*rule.by_matches[&crate::route_hash(&json!([{ "method": method }]))].name, name);
    }
    assert_eq!(rule.by_matches.len(), 2);
}

#[test]
fn whole_proxies_have_one_rule() {
    let [weak, strong] = [json!({ "a": 1, "b": 1 }), json!({ "b": 2 })].map(|conf| json!({ "default": conf }));
    let rule = single(&[policy(&FAULT, "weak", &weak), policy(&FAULT, "strong", &strong)]).unwrap();
    assert_eq!(shown(&[rule]), [r#": {"a":1,"b":2} by weak, strong"#]);
    assert_eq!(single(&[]), None);
}

#[test]
fn without_tags_only_rules_for_everything_match() {
    let tag = |key: &str, not| Tag { key: key.to_owned(), value: "1".to_owned(), not };
    for (subset, tags, expected) in [
        (vec![], &[][..], true),
        (vec![tag("a", true)], &[], false),
        (vec![tag("a", true)], &[("b", "1")], true),
        (vec![tag("a", true)], &[("a", "2")], true),
        (vec![tag("a", true)], &[("a", "1")], false),
        (vec![tag("a", false)], &[("a", "1"), ("b", "1")], true),
        (vec![tag("a", false), tag("b", true)], &[("a", "1"), ("b", "1")], false),
    ] {
        assert_eq!(is_about(&subset, tags), expected, "{subset:?} {tags:?}");
    }
}

/// Policies with a tag of their own each, with a harmless one between them.
fn different_tags(count: usize) -> Vec<Arc<Policy>> {
    let mut policies = Vec::new();
    for n in 0..count {
        let spec = items("from", &[subset(&json!({ format!("key-{n}"): "1" }))]);
        policies.push(policy(&FAULT, &format!("tag-{n}"), &spec));
        policies.push(policy(&FAULT, &format!("all-{n}"), &items("from", &[json!({ "kind": "Mesh" })])));
    }
    policies
}

#[test]
fn too_many_combinations_are_rejected_with_the_policies_that_cause_them() {
    assert_eq!(from(&different_tags(13)).unwrap().len(), 1 << 13);
    assert_eq!(explodes(&different_tags(13)), None);
    let policies = different_tags(60);
    let trouble = from(&policies).unwrap_err();
    assert_eq!(explodes(&policies).as_ref(), Some(&trouble));
    let RuleError::TooMany { policies, combinations } = &trouble else { panic!("{trouble}") };
    assert_eq!((policies.len(), *combinations), (14, 1 << 14), "{trouble}");
    assert!(policies.iter().all(|policy| policy.name.starts_with("tag-")), "{trouble}");
    assert!(trouble.to_string().contains(r#"MeshFaultInjection "tag-0", "tag-1","#), "{trouble}");
}

#[test]
fn long_searches_are_stopped() {
    // Two values for each of many tags: every tag doubles the number of groups.
    let targets: Vec<Value> = (0..80).map(|n| subset(&json!({ format!("key-{}", n / 2): n.to_string() }))).collect();
    let policies = [policy(&TIMEOUT, "one", &items("to", &targets)), policy(&TIMEOUT, "other", &items("to", &[]))];
    let Err(RuleError::TooMany { policies, .. }) = to(&policies, &resources()) else { panic!("not too many") };
    assert_eq!(policies.iter().map(|policy| &*policy.name).collect::<Vec<_>>(), ["one"]);
}

#[test]
fn many_values_of_one_tag_are_not_too_many() {
    let mut targets: Vec<Value> = (0..2000).map(|n| subset(&json!({ "app": n.to_string() }))).collect();
    targets.push(json!({ "kind": "Mesh" }));
    assert_eq!(from(&[policy(&FAULT, "p", &items("from", &targets))]).unwrap().len(), 4000);
}
