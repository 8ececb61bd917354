//! Rewrites permissions with matchers into principals.

use serde_json::{Map, Value, json};

/// [`super::PRINCIPALS`], in the filters of a filter chain or connection manager.
pub(super) fn by_principals(filters: &mut Vec<Value>) {
    *filters = std::mem::take(filters).into_iter().flat_map(rewritten).collect();
}

/// Denials have their own filter, before the allowing one, unless no caller is allowed anyway.
fn rewritten(filter: Value) -> Vec<Value> {
    let config = &filter["typedConfig"];
    if config.get("matcher").is_none() {
        return vec![filter];
    }
    let (denied, allowed): (Vec<_>, Vec<_>) =
        matched(&config["matcher"]).into_iter().partition(|callers| callers.is_denied);
    let shadow = matched(&config["shadowMatcher"]);
    let mut all = Vec::new();
    if !denied.is_empty() && !allowed.is_empty() {
        all.push(with_rules(&filter, &denied, &[]));
    }
    all.push(with_rules(&filter, &allowed, &shadow));
    all
}

/// Callers of one policy.
struct Callers {
    policy: String,
    is_denied: bool,
    /// Each by identity, by SNI, or by both.
    any_of: Vec<Caller>,
}

#[derive(Clone, Default)]
struct Caller {
    identity: Option<Value>,
    server: Option<Value>,
}

fn matched(matcher: &Value) -> Vec<Callers> {
    let matchers = matcher["matcherList"]["matchers"].as_array().into_iter().flatten();
    let callers = |one: &Value| {
        let action = &one["onMatch"]["action"]["typedConfig"];
        Callers {
            policy: action["name"].as_str().unwrap_or_default().to_owned(),
            is_denied: action["action"] == "DENY",
            any_of: any_of(&one["predicate"]),
        }
    };
    matchers.map(callers).collect()
}

fn any_of(predicate: &Value) -> Vec<Caller> {
    if let Some(some) = predicate["orMatcher"]["predicate"].as_array() {
        return some.iter().flat_map(any_of).collect();
    }
    if let Some(all) = predicate["andMatcher"]["predicate"].as_array() {
        let parts = all.iter().flat_map(any_of);
        let both = parts.fold(Caller::default(), |one, other| Caller {
            identity: other.identity.or(one.identity),
            server: other.server.or(one.server),
        });
        return vec![both];
    }
    let single = &predicate["singlePredicate"];
    let value = Some(single["valueMatch"].clone());
    vec![if single["input"]["name"] == "envoy.matching.inputs.uri_san" {
        Caller { identity: value, server: None }
    } else {
        Caller { identity: None, server: value }
    }]
}

fn with_rules(filter: &Value, callers: &[Callers], shadow: &[Callers]) -> Value {
    let mut filter = filter.clone();
    if let Some(config) = filter["typedConfig"].as_object_mut() {
        config.remove("matcher");
        config.remove("shadowMatcher");
        config.insert("rules".to_owned(), rules(callers));
        if !shadow.is_empty() {
            config.insert("shadowRules".to_owned(), rules(shadow));
        }
    }
    filter
}

/// One RBAC policy for each policy and each SNI in it.
fn rules(callers: &[Callers]) -> Value {
    let mut policies = Map::new();
    for (policy, caller) in callers.iter().flat_map(|each| each.any_of.iter().map(|caller| (&each.policy, caller))) {
        let (name, permission) = match &caller.server {
            None => (policy.clone(), json!({ "any": true })),
            Some(server) => {
                let name = server["exact"].as_str().unwrap_or_default();
                (format!("{policy} for {name}"), json!({ "requestedServerName": server }))
            }
        };
        let named = |identity: &Value| json!({ "authenticated": { "principalName": identity } });
        let some = match &caller.identity {
            None => vec![json!({ "any": true })],
            // Whole segments: the identity itself, and those below it.
            Some(identity) if let Some(prefix) = identity["prefix"].as_str() => {
                let below = format!("{}/", prefix.trim_end_matches('/'));
                vec![named(&json!({ "exact": prefix })), named(&json!({ "prefix": below }))]
            }
            Some(identity) => vec![named(identity)],
        };
        let entry = policies.entry(name).or_insert_with(|| json!({ "permissions": [permission], "principals": [] }));
        if let Some(principals) = entry["principals"].as_array_mut() {
            principals.extend(some);
        }
    }
    let mut rules = Map::new();
    if callers.iter().any(|each| each.is_denied) {
        rules.insert("action".to_owned(), json!("DENY"));
    }
    if !policies.is_empty() {
        rules.insert("policies".to_owned(), Value::Object(policies));
    }
    Value::Object(rules)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn single(input: &str, value: &Value) -> Value {
        json!({ "singlePredicate": { "input": { "name": format!("envoy.matching.inputs.{input}") }, "valueMatch": value } })
    }

    fn entry(action: &str, predicate: &Value) -> Value {
        json!({ "onMatch": { "action": { "typedConfig": { "name": "p", "action": action } } }, "predicate": predicate })
    }

    fn filter(matchers: &[Value]) -> Value {
        json!({ "name": "rbac", "typedConfig": { "matcher": { "matcherList": { "matchers": matchers } } } })
    }

    #[test]
    fn denials_come_first_and_snis_have_separate_policies() {
        let web = json!({ "exact": "spiffe://a/web" });
        let shop = json!({ "exact": "shop" });
        let both = json!({ "andMatcher": { "predicate": [single("uri_san", &web), single("server_name", &shop)] } });
        let some = json!({ "orMatcher": { "predicate": [single("uri_san", &web), both] } });
        let mut filters = vec![
            filter(&[entry("DENY", &single("uri_san", &web)), entry("ALLOW", &some)]),
            json!({ "name": "router" }),
        ];
        by_principals(&mut filters);
        let (any, principal) = (json!({ "any": true }), json!({ "authenticated": { "principalName": web } }));
        let everywhere = json!({ "permissions": [any], "principals": [principal] });
        let at_shop = json!({ "permissions": [{ "requestedServerName": shop }], "principals": [principal] });
        assert_eq!(filters.len(), 3);
        assert_eq!(
            filters[0]["typedConfig"],
            json!({ "rules": { "action": "DENY", "policies": { "p": everywhere } } })
        );
        let allowed = json!({ "rules": { "policies": { "p": everywhere, "p for shop": at_shop } } });
        assert_eq!(filters[1]["typedConfig"], allowed);
        assert_eq!(filters[2], json!({ "name": "router" }));
    }

    #[test]
    fn no_deny_filter_when_no_caller_is_allowed() {
        let mut filters = vec![filter(&[entry("DENY", &single("uri_san", &json!({ "prefix": "spiffe://" })))])];
        by_principals(&mut filters);
        assert_eq!(filters, [json!({ "name": "rbac", "typedConfig": { "rules": {} } })]);
    }
}
