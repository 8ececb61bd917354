//! Route names: hashes of their matches.

use base64::{Engine as _, prelude::BASE64_STANDARD};
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

/// Field order of each object in the hashed JSON, which is that of Kuma's Go structs.
const MATCH: &[&str] = &["path", "method", "queryParams", "headers"];
const PATH: &[&str] = &["value", "type"];
const VALUES: &[&str] = &["type", "name", "value"];

/// Name of a route rule, computed from its `matches`. Equal matches have equal names, in whatever field order they are
/// written.
pub fn route_hash(matches: &Value) -> String {
    let each = matches.as_array().into_iter().flatten().map(one_match);
    let text = Value::Array(each.collect()).to_string();
    BASE64_STANDARD.encode(Sha256::digest(escaped(&text)))
}

fn one_match(value: &Value) -> Value {
    let mut ordered = ordered(value, MATCH);
    if let Some(path) = ordered.get_mut("path") {
        *path = self::ordered(path, PATH);
    }
    for field in ["queryParams", "headers"] {
        for each in ordered.get_mut(field).and_then(Value::as_array_mut).into_iter().flatten() {
            *each = self::ordered(each, VALUES);
        }
    }
    ordered
}

fn ordered(value: &Value, fields: &[&str]) -> Value {
    let fields = fields.iter().filter_map(|field| Some(((*field).to_owned(), value.get(field)?.clone())));
    Value::Object(fields.collect::<Map<_, _>>())
}

/// Go's JSON encoder escapes HTML characters in strings; they occur nowhere else in the text.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '<' => escaped.push_str("\\u003c"),
            '>' => escaped.push_str("\\u003e"),
            '&' => escaped.push_str("\\u0026"),
            '\u{2028}' => escaped.push_str("\\u2028"),
            '\u{2029}' => escaped.push_str("\\u2029"),
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn equal_matches_have_equal_names_in_any_field_order() {
        let a = json!([{
            "headers": [{ "value": "1", "name": "x", "type": "Exact" }],
            "path": { "type": "Exact", "value": "/" },
        }]);
        let b = json!([{
            "path": { "value": "/", "type": "Exact" },
            "headers": [{ "type": "Exact", "name": "x", "value": "1" }],
        }]);
        assert_eq!(route_hash(&a), route_hash(&b));
        assert_ne!(route_hash(&a), route_hash(&json!([{ "method": "GET" }])));
    }

    /// Computed with `printf '%s' ... | openssl dgst -sha256 -binary | base64` from the hashed text.
    #[test]
    fn names_are_hashes_of_html_escaped_json() {
        for (matches, expected) in [
            (
                json!([{ "path": { "type": "PathPrefix", "value": "/shop" }, "method": "GET" }]),
                "xeRizDn+/SQ+m70olNLAYSmAdUXXoDrcQParJn48dlI=",
            ),
            (
                json!([{ "queryParams": [{ "name": "q", "value": "a&b<c>", "type": "Exact" }] }]),
                "l50I9JT7zjelWZrW5GniBGcL7Js8HlhhXzAyMLrNBsM=",
            ),
        ] {
            assert_eq!(route_hash(&matches), expected, "{matches}");
        }
    }
}
