//! Rewrites fault injection: callers are identified by one URI of their certificate, and never by a header.

use serde_json::{Value, json};

const TAGS: &str = "x-kuma-tags";

/// [`super::ONE_URI`], at any depth of a matcher that wraps a filter.
pub(super) fn by_one_uri(filter: &mut Value) {
    if let Some(matcher) = filter.pointer_mut("/typedConfig/xdsMatcher") {
        rewrite(matcher);
    }
}

fn rewrite(matcher: &mut Value) {
    match matcher {
        Value::Object(fields) => {
            let is_uri = fields.get("input").is_some_and(|input| input["name"] == "envoy.matching.inputs.uri_san");
            if let Some(value) = fields.get_mut("valueMatch").filter(|_| is_uri) {
                *value = one_uri(value);
                return;
            }
            fields.values_mut().for_each(rewrite);
        }
        Value::Array(items) => items.iter_mut().for_each(rewrite),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => (),
    }
}

fn one_uri(value: &Value) -> Value {
    let text = |kind: &str| value[kind].as_str().map(|text| text.replace('.', r"\."));
    let regex = match (text("exact"), text("prefix")) {
        (Some(exact), _) => format!("(.*,)?{exact}(,.*)?"),
        (None, Some(prefix)) => format!("(.*,)?{prefix}([/,].*)?"),
        (None, None) => return value.clone(),
    };
    json!({ "safeRegex": { "googleRe2": {}, "regex": regex } })
}

/// [`super::NO_TAGS_HEADER`]
pub(super) fn without_tags_header(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            if let Some(added) = fields.get_mut("requestHeadersToAdd").and_then(Value::as_array_mut) {
                added.retain(|added| added["header"]["key"] != TAGS);
                if added.is_empty() {
                    fields.remove("requestHeadersToAdd");
                }
            }
            fields.values_mut().for_each(without_tags_header);
        }
        Value::Array(items) => items.iter_mut().for_each(without_tags_header),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => (),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matched_uris_become_regular_expressions() {
        let filter = |uri: Value, sni: Value| {
            let single = |input: &str, value: Value| json!({ "singlePredicate": { "input": { "name": input }, "valueMatch": value } });
            let both = [single("envoy.matching.inputs.uri_san", uri), single("envoy.matching.inputs.server_name", sni)];
            json!({ "typedConfig": { "xdsMatcher": { "notMatcher": { "andMatcher": { "predicate": both } } } } })
        };
        let sni = json!({ "exact": "x.mesh" });
        for (kind, regex) in [("exact", r"(.*,)?spiffe://a\.b/c(,.*)?"), ("prefix", r"(.*,)?spiffe://a\.b/c([/,].*)?")]
        {
            let mut recorded = filter(json!({ kind: "spiffe://a.b/c" }), sni.clone());
            by_one_uri(&mut recorded);
            assert_eq!(recorded, filter(json!({ "safeRegex": { "googleRe2": {}, "regex": regex } }), sni.clone()));
        }
    }

    #[test]
    fn only_the_header_with_tags_is_removed() {
        let routes = |keys: &[&str]| {
            let added: Vec<Value> = keys.iter().map(|key| json!({ "header": { "key": key, "value": "x" } })).collect();
            json!([{ "routeConfig": { "requestHeadersToAdd": added } }])
        };
        let mut both = routes(&[TAGS, "x-other"]);
        without_tags_header(&mut both);
        assert_eq!(both, routes(&["x-other"]));
        let mut alone = routes(&[TAGS]);
        without_tags_header(&mut alone);
        assert_eq!(alone, json!([{ "routeConfig": {} }]));
    }
}
