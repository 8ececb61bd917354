//! Normalizes lists of principals by their meaning, the callers that they match. The same meaning has many forms.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

/// Name of the single RBAC policy for `from`.
const FROM: &str = "MeshTrafficPermission";
/// Maximum number of callers to evaluate.
const MOST: usize = 1 << 14;

/// The URI SANs of a certificate.
pub(crate) type Caller = BTreeSet<String>;

/// Callers with any combination of the mentioned values: of each tag one value, or none.
pub(crate) fn callers<'a>(uris: impl IntoIterator<Item = &'a String>) -> Option<Vec<Caller>> {
    let mut values: BTreeMap<&str, BTreeSet<&String>> = BTreeMap::new();
    for uri in uris {
        let (tag, _) = uri.rsplit_once('/').unwrap_or((uri, ""));
        values.entry(tag).or_default().insert(uri);
    }
    let count = values.values().try_fold(1_usize, |all, values| all.checked_mul(values.len() + 1));
    count.filter(|count| *count <= MOST)?;
    let nobody = vec![Caller::new()];
    let with = |callers: Vec<Caller>, values: &BTreeSet<&String>| {
        let more = |caller: &Caller| {
            let caller = caller.clone();
            values.iter().map(move |value| caller.iter().chain([*value]).cloned().collect())
        };
        let more: Vec<Caller> = callers.iter().flat_map(more).collect();
        callers.into_iter().chain(more).collect()
    };
    Some(values.values().fold(nobody, with))
}

/// Applies a function to each list of principals that was generated from `from`.
pub(crate) fn each_list(config: &mut Value, change: &mut impl FnMut(&mut Value)) {
    match config {
        Value::Object(fields) => {
            if let Some(principals) = fields.get_mut(FROM).and_then(|policy| policy.get_mut("principals")) {
                change(principals);
                return;
            }
            fields.values_mut().for_each(|value| each_list(value, change));
        }
        Value::Array(items) => items.iter_mut().for_each(|value| each_list(value, change)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => (),
    }
}

/// All URIs in a principal.
pub(crate) fn uris(principal: &Value, found: &mut BTreeSet<String>) {
    match principal {
        Value::Object(fields) => {
            if let Some(uri) = fields.get("principalName").and_then(|name| name["exact"].as_str()) {
                found.insert(uri.to_owned());
            }
            fields.values().for_each(|value| uris(value, found));
        }
        Value::Array(items) => items.iter().for_each(|value| uris(value, found)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => (),
    }
}

/// Evaluates a principal like Envoy.
fn is(principal: &Value, caller: &Caller) -> bool {
    let set = |name: &str| principal[name]["ids"].as_array();
    if let Some(all) = set("andIds") {
        return all.iter().all(|one| is(one, caller));
    }
    if let Some(some) = set("orIds") {
        return some.iter().any(|one| is(one, caller));
    }
    if let Some(not) = principal.get("notId") {
        return !is(not, caller);
    }
    let uri = principal["authenticated"]["principalName"]["exact"].as_str();
    uri.map_or(principal["any"] == true, |uri| caller.contains(uri))
}

/// Rewrites all lists into the same form for the same callers.
pub(super) fn by_meaning(configs: &mut [&mut Value]) {
    let mut spoken_of = BTreeSet::new();
    for config in &mut *configs {
        each_list(config, &mut |principals| uris(principals, &mut spoken_of));
    }
    let Some(callers) = callers(&spoken_of) else { return };
    for config in configs {
        each_list(config, &mut |principals| {
            let any_of = principals.as_array().cloned().unwrap_or_default();
            let meant = callers.iter().filter(|caller| any_of.iter().any(|principal| is(principal, caller)));
            *principals = json!(meant.collect::<Vec<_>>());
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn uri(uri: &str) -> Value {
        json!({ "authenticated": { "principalName": { "exact": uri } } })
    }

    fn config(principals: &Value) -> Value {
        json!([{ "rules": { "policies": { FROM: { "permissions": [], "principals": principals } } } }])
    }

    #[test]
    fn caller_has_one_value_or_none_of_each_tag() {
        let uris = ["spiffe://m/a", "spiffe://m/b", "kuma://env/dev"].map(str::to_owned);
        assert_eq!(callers(&uris).unwrap().len(), 6);
        let many: Vec<String> = (0..20).map(|n| format!("kuma://tag-{n}/x")).collect();
        assert_eq!(callers(&many), None);
    }

    #[test]
    fn equivalent_lists_become_equal() {
        let (a, b) = (uri("spiffe://m/a"), uri("spiffe://m/b"));
        let not = |id: &Value| json!({ "notId": id });
        let mut one = config(&json!([not(&json!({ "orIds": { "ids": [a, b] } }))]));
        let mut same = config(&json!([{ "andIds": { "ids": [{ "any": true }, not(&a), not(&b)] } }]));
        let mut other = config(&json!([not(&a)]));
        by_meaning(&mut [&mut one, &mut same, &mut other]);
        assert_eq!(one, same);
        assert_eq!(one, config(&json!([[]])));
        assert_eq!(other, config(&json!([[], ["spiffe://m/b"]])));
    }
}
