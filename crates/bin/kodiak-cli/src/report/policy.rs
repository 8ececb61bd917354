//! Status of policies as text.

use kodiak_kinds::kinds;
use kodiak_model::Kri;
use serde_json::Value;

/// Names to show on a line.
const MOST_NAMES: usize = 3;

pub(crate) fn state(status: &Value) -> &'static str {
    match status["state"].as_str() {
        Some("InForce") => "in force",
        Some("Partly") => "partly",
        Some("NotInForce") => "not in force",
        _ => "unknown",
    }
}

/// `MeshService web`, `Dataplane app=web`, `Dataplane web-1:admin`; `Mesh` where a policy names no target.
pub(crate) fn target(target: &Value) -> String {
    let text = |field: &str| target.get(field).and_then(Value::as_str).filter(|text| !text.is_empty());
    let pairs = |field: &str| -> Vec<String> {
        let pairs = target.get(field).and_then(Value::as_object).into_iter().flatten();
        pairs.map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default())).collect()
    };
    let types = target.get("proxyTypes").and_then(Value::as_array).into_iter().flatten();
    let types = types.filter_map(Value::as_str).map(str::to_owned);
    let named = text("name").map(str::to_owned).into_iter();
    let named: Vec<String> = named.chain(pairs("labels")).chain(pairs("tags")).chain(types).collect();
    let mut shown = text("kind").unwrap_or("Mesh").to_owned();
    if !named.is_empty() {
        shown = format!("{shown} {}", named.join(","));
    }
    match text("sectionName") {
        Some(section) => format!("{shown}:{section}"),
        None => shown,
    }
}

/// First reason, short enough for a table.
pub(crate) fn short_reason(status: &Value) -> String {
    let reasons = status["reasons"].as_array().map_or(&[][..], Vec::as_slice);
    let Some(first) = reasons.first() else { return "-".to_owned() };
    let names = names(first);
    let text = match first["reason"].as_str().unwrap_or_default() {
        "NotSupportedYet" => "not supported yet".to_owned(),
        "Shadow" => "shadow policy".to_owned(),
        "Overridden" => format!("overridden by {names}"),
        "Ignored" => format!("`from` ignored because of {names}"),
        "NoMutualTls" => "no mutual TLS: not enforced".to_owned(),
        "CallersWithoutTags" => format!("callers of {names} have no tags, use `rules`"),
        "TooMany" => "too many tags".to_owned(),
        _ => first["message"].as_str().unwrap_or_default().to_owned(),
    };
    if reasons.len() == 1 { text } else { format!("{text} (and {} more)", reasons.len() - 1) }
}

/// Full reason: location, problem, and the policies involved.
pub(crate) fn reason(reason: &Value) -> String {
    let text = |field: &str| reason[field].as_str().unwrap_or_default();
    let path = if text("path").is_empty() { String::new() } else { format!("{}: ", text("path")) };
    let blamed = blamed(reason);
    let blamed = if blamed.is_empty() { String::new() } else { format!(" [{}]", blamed.join(", ")) };
    format!("{path}{} ({}){blamed}", text("message"), text("reason"))
}

fn blamed(reason: &Value) -> Vec<&str> {
    reason["policies"].as_array().into_iter().flatten().filter_map(Value::as_str).collect()
}

/// Names in the KRIs of the policies involved.
fn names(reason: &Value) -> String {
    let blamed = blamed(reason);
    let name = |kri: &&str| Kri::parse(kinds(), kri).map_or_else(|_| (*kri).to_owned(), |kri| kri.name);
    let names: Vec<String> = blamed.iter().take(MOST_NAMES).map(name).collect();
    match blamed.len().saturating_sub(MOST_NAMES) {
        0 => names.join(", "),
        more => format!("{} and {more} more", names.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn shows_targets_on_one_line() {
        for (given, expected) in [
            (Value::Null, "Mesh"),
            (json!({ "kind": "Mesh", "proxyTypes": ["Gateway"] }), "Mesh Gateway"),
            (json!({ "kind": "MeshService", "name": "web" }), "MeshService web"),
            (json!({ "kind": "Dataplane", "labels": { "a": "b", "c": "d" } }), "Dataplane a=b,c=d"),
            (json!({ "kind": "Dataplane", "name": "web-1", "sectionName": "admin" }), "Dataplane web-1:admin"),
            (json!({ "kind": "MeshSubset", "tags": { "v": "1" } }), "MeshSubset v=1"),
        ] {
            assert_eq!(target(&given), expected);
        }
    }

    #[test]
    fn shows_the_first_reason_and_counts_the_others() {
        let kris: Vec<String> = ["a", "b", "c", "d"].map(|name| format!("kri_mt_default___{name}_")).into();
        let overridden = json!({ "reason": "Overridden", "message": "long", "policies": kris });
        let missing = json!({ "reason": "Unresolved", "message": "there is no x", "path": "spec.to[0]" });
        assert_eq!(short_reason(&json!({ "reasons": [] })), "-");
        assert_eq!(short_reason(&json!({ "reasons": [missing] })), "there is no x");
        let both = json!({ "reasons": [overridden, missing] });
        assert_eq!(short_reason(&both), "overridden by a, b, c and 1 more (and 1 more)");
        assert_eq!(reason(&missing), "spec.to[0]: there is no x (Unresolved)");
        assert_eq!(reason(&json!({ "reason": "Ignored", "message": "m", "policies": ["k"] })), "m (Ignored) [k]");
    }
}
