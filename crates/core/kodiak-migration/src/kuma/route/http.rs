//! Items of `conf.http` of a TrafficRoute to rules of a MeshHTTPRoute.
//!
//! A TrafficRoute tries its items in their order, a MeshHTTPRoute the most specific match first. So several items are
//! converted only if no request matches two of them.

use serde_json::{Map, Value, json};

use super::{Fields, backends};

pub(super) struct HttpRule {
    pub(super) rule: Value,
    pub(super) notes: Vec<String>,
    /// Exact values of path, method and headers.
    exact: Map<String, Value>,
}

pub(super) fn every_request() -> Value {
    json!({ "path": { "type": "PathPrefix", "value": "/" } })
}

pub(super) fn rules(items: Vec<Value>) -> Result<Vec<HttpRule>, String> {
    let rules = items.into_iter().map(rule).collect::<Result<Vec<_>, _>>()?;
    for (n, one) in rules.iter().enumerate() {
        let apart = |other: &HttpRule| {
            one.exact.iter().any(|(key, value)| other.exact.get(key).is_some_and(|other| other != value))
        };
        if !rules[n + 1..].iter().all(apart) {
            return Err("items of conf.http may match the same request; a MeshHTTPRoute does not use the first, but the most specific one".to_owned());
        }
    }
    Ok(rules)
}

fn rule(item: Value) -> Result<HttpRule, String> {
    let mut item = Fields::of(Some(item), "conf.http")?;
    let mut notes = Vec::new();
    let mut exact = Map::new();
    let mut matched = Map::new();
    let mut prefix = None;
    if let Some(mut written) = item.object("match")? {
        if let Some((kind, value)) = matcher(written.object("method")?)? {
            if kind != "exact" {
                return Err(format!("conf.http.match.method.{kind} has no counterpart; only exact has"));
            }
            exact.insert("method".to_owned(), json!(value));
            matched.insert("method".to_owned(), json!(value));
        }
        if let Some((kind, value)) = matcher(written.object("path")?)? {
            let path = match kind {
                "exact" => {
                    exact.insert("path".to_owned(), json!(value));
                    json!({ "type": "Exact", "value": value })
                }
                "regex" => json!({ "type": "RegularExpression", "value": value }),
                _ if value == "/" => json!({ "type": "PathPrefix", "value": "/" }),
                _ => {
                    notes.push(format!(
                        "the path prefix {value:?} becomes a regular expression: PathPrefix matches whole segments"
                    ));
                    json!({ "type": "RegularExpression", "value": format!("{}.*", escaped(&value)) })
                }
            };
            prefix = (kind == "prefix").then_some(value);
            matched.insert("path".to_owned(), path);
        }
        let headers = written.object("headers")?.map(|mut headers| headers.rest()).unwrap_or_default();
        let mut new = Vec::new();
        for (name, value) in headers {
            let name = name.to_ascii_lowercase();
            let value = Fields::of(Some(value), "conf.http.match.headers")?;
            let Some((kind, value)) = matcher(Some(value))? else { continue };
            if kind == "exact" {
                exact.insert(format!("header {name}"), json!(value));
            }
            let kind = match kind {
                "exact" => "Exact",
                "regex" => "RegularExpression",
                _ => "Prefix",
            };
            new.push(json!({ "type": kind, "name": name, "value": value }));
        }
        if !new.is_empty() {
            matched.insert("headers".to_owned(), json!(new));
        }
        written.end()?;
    }
    let mut default = Map::new();
    if let Some(modify) = item.object("modify")? {
        default.insert("filters".to_owned(), json!(filters(modify, prefix.as_deref())?));
    }
    let backends = backends(&mut item)?;
    if !backends.is_empty() {
        default.insert("backendRefs".to_owned(), json!(backends));
    }
    item.end()?;
    let matched = if matched.is_empty() { every_request() } else { Value::Object(matched) };
    Ok(HttpRule { rule: json!({ "matches": [matched], "default": default }), notes, exact })
}

/// Kind and value of a string matcher.
fn matcher(matcher: Option<Fields>) -> Result<Option<(&'static str, String)>, String> {
    let Some(mut matcher) = matcher else { return Ok(None) };
    for kind in ["exact", "prefix", "regex"] {
        if let Some(value) = matcher.text(kind)? {
            matcher.end()?;
            return Ok(Some((kind, value)));
        }
    }
    matcher.end()?;
    Ok(None)
}

fn filters(mut modify: Fields, prefix: Option<&str>) -> Result<Vec<Value>, String> {
    let mut filters = Vec::new();
    let mut rewrite = Map::new();
    if let Some(mut path) = modify.object("path")? {
        let new = path.text("rewritePrefix")?;
        path.end()?;
        if prefix != Some("/") {
            return Err("conf.http.modify.path.rewritePrefix: only the prefix / can be rewritten; a MeshHTTPRoute replaces whole segments".to_owned());
        }
        rewrite.insert("path".to_owned(), json!({ "type": "ReplacePrefixMatch", "replacePrefixMatch": new }));
    }
    if let Some(mut host) = modify.object("host")? {
        rewrite.extend(host.copy(&[("value", "hostname")]));
        host.end()?;
    }
    if !rewrite.is_empty() {
        filters.push(json!({ "type": "URLRewrite", "urlRewrite": rewrite }));
    }
    for (old, kind, member) in [
        ("requestHeaders", "RequestHeaderModifier", "requestHeaderModifier"),
        ("responseHeaders", "ResponseHeaderModifier", "responseHeaderModifier"),
    ] {
        let Some(mut headers) = modify.object(old)? else { continue };
        let mut new: Map<String, Value> = Map::new();
        for header in headers.list("add")? {
            let mut header = Fields::of(Some(header), "conf.http.modify.add")?;
            let list = if header.flag("append")?.unwrap_or_default() { "add" } else { "set" };
            let named = header.copy(&[("name", "name"), ("value", "value")]);
            header.end()?;
            let entry = new.entry(list).or_insert_with(|| json!([]));
            entry.as_array_mut().expect("made as a list").push(Value::Object(named));
        }
        let removed: Vec<Value> =
            headers.list("remove")?.iter().filter_map(|header| header.get("name").cloned()).collect();
        if !removed.is_empty() {
            new.insert("remove".to_owned(), json!(removed));
        }
        headers.end()?;
        filters.push(json!({ "type": kind, member: new }));
    }
    modify.end()?;
    Ok(filters)
}

/// As a regular expression that matches the text itself.
fn escaped(text: &str) -> String {
    let mut regex = String::new();
    for c in text.chars() {
        if r"\.+*?()|[]{}^$".contains(c) {
            regex.push('\\');
        }
        regex.push(c);
    }
    regex
}
