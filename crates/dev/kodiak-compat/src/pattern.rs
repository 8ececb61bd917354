//! Expected JSON: objects are matched by the listed fields, lists item by item, and some texts stand for any value of a type.

use serde_json::Value;

/// Differences, each with its path.
pub(crate) fn compare(expected: &Value, found: &Value) -> Vec<String> {
    let mut differences = Vec::new();
    at("$", expected, Some(found), &mut differences);
    differences
}

fn at(path: &str, expected: &Value, found: Option<&Value>, differences: &mut Vec<String>) {
    if expected == "<absent>" {
        if let Some(found) = found {
            differences.push(format!("{path}: must be absent, but is {found}"));
        }
        return;
    }
    let Some(found) = found else {
        differences.push(format!("{path}: missing, expected {expected}"));
        return;
    };
    match (expected, found) {
        (Value::String(pattern), _) if is_placeholder(pattern) => {
            if !stands_for(pattern, found) {
                differences.push(format!("{path}: expected {pattern}, found {found}"));
            }
        }
        (Value::Object(fields), Value::Object(_)) => {
            for (key, expected) in fields {
                at(&format!("{path}.{key}"), expected, found.get(key), differences);
            }
        }
        (Value::Array(items), Value::Array(found)) => list(path, items, found, differences),
        _ if expected == found => (),
        _ => differences.push(format!("{path}: expected {expected}, found {found}")),
    }
}

/// A last item `<more>` allows any others.
fn list(path: &str, items: &[Value], found: &[Value], differences: &mut Vec<String>) {
    let (items, more) = match items.split_last() {
        Some((last, items)) if last == "<more>" => (items, true),
        _ => (items, false),
    };
    if found.len() < items.len() || (!more && found.len() > items.len()) {
        differences.push(format!("{path}: expected {} items, found {}", items.len(), found.len()));
        return;
    }
    for (n, (expected, found)) in items.iter().zip(found).enumerate() {
        at(&format!("{path}[{n}]"), expected, Some(found), differences);
    }
}

fn is_placeholder(text: &str) -> bool {
    text.starts_with('<') && text.ends_with('>')
}

fn stands_for(pattern: &str, found: &Value) -> bool {
    let text = found.as_str();
    match pattern {
        "<any>" => true,
        "<string>" => text.is_some_and(|text| !text.is_empty()),
        "<number>" => found.is_number(),
        "<boolean>" => found.is_boolean(),
        "<list>" => found.is_array(),
        "<object>" => found.is_object(),
        "<time>" => text.is_some_and(|text| text.len() >= 20 && text.ends_with('Z') && text.contains('T')),
        // Three parts in base64url.
        "<token>" => text.is_some_and(|text| text.starts_with("eyJ") && text.split('.').count() == 3),
        _ => pattern
            .strip_prefix("<contains ")
            .and_then(|rest| rest.strip_suffix('>'))
            .is_some_and(|part| text.is_some_and(|text| text.contains(part))),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(expected: &Value, found: &Value, differences: &[&str]) {
        assert_eq!(compare(expected, found), differences);
    }

    #[test]
    fn fields_that_are_not_listed_are_ignored() {
        check(&json!({ "a": 1 }), &json!({ "a": 1, "b": 2 }), &[]);
        check(&json!({ "a": { "b": 1 } }), &json!({ "a": {} }), &["$.a.b: missing, expected 1"]);
        check(&json!({ "a": "<absent>" }), &json!({ "a": null }), &["$.a: must be absent, but is null"]);
    }

    #[test]
    fn lists_have_all_items_unless_there_may_be_more() {
        check(&json!([1]), &json!([1, 2]), &["$: expected 1 items, found 2"]);
        check(&json!([1, "<more>"]), &json!([1, 2]), &[]);
        check(&json!([1, "<more>"]), &json!([]), &["$: expected 1 items, found 0"]);
        check(&json!([{ "a": 1 }]), &json!([{ "a": 2 }]), &["$[0].a: expected 1, found 2"]);
    }

    #[test]
    fn placeholders_stand_for_types() {
        check(&json!("<time>"), &json!("2026-01-01T00:00:00Z"), &[]);
        check(&json!("<contains of X>"), &json!("mesh of X is"), &[]);
        check(&json!("<number>"), &json!("1"), &["$: expected <number>, found \"1\""]);
        check(&json!("<token>"), &json!("eyJ.b.c"), &[]);
    }
}
