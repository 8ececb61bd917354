//! Differences between two answers, by path.

use std::collections::BTreeSet;

use serde_json::Value;

/// Equal numbers are equal however they are written: 20 and 20.0.
pub(super) fn between(recorded: &Value, ours: &Value) -> Vec<String> {
    let mut found = Vec::new();
    compare("", recorded, ours, &mut found);
    found
}

fn compare(path: &str, recorded: &Value, ours: &Value, found: &mut Vec<String>) {
    match (recorded, ours) {
        (Value::Object(one), Value::Object(other)) => {
            let fields: BTreeSet<&String> = one.keys().chain(other.keys()).collect();
            for field in fields {
                let path = format!("{path}/{field}");
                match (one.get(field), other.get(field)) {
                    (Some(one), Some(other)) => compare(&path, one, other, found),
                    (Some(_), None) => found.push(format!("{path}: recorded, and not ours")),
                    (None, _) => found.push(format!("{path}: ours, and not recorded")),
                }
            }
        }
        (Value::Array(one), Value::Array(other)) if one.len() == other.len() => {
            for (n, (one, other)) in one.iter().zip(other).enumerate() {
                compare(&format!("{path}/{n}"), one, other, found);
            }
        }
        (Value::Number(one), Value::Number(other)) if one.as_f64() == other.as_f64() => (),
        (one, other) if one == other => (),
        (one, other) => found.push(format!("{path}: recorded {one}, ours {other}")),
    }
}

#[test]
fn differences_are_found_by_path() {
    use serde_json::json;
    let recorded = json!({ "a": 20, "b": [1, { "c": "x" }], "d": [1], "gone": 1 });
    let ours = json!({ "a": 20.0, "b": [1, { "c": "y" }], "d": [1, 2], "new": 1 });
    assert_eq!(between(&recorded, &recorded), Vec::<String>::new());
    let expected = [
        "/b/1/c: recorded \"x\", ours \"y\"",
        "/d: recorded [1], ours [1,2]",
        "/gone: recorded, and not ours",
        "/new: ours, and not recorded",
    ];
    assert_eq!(between(&recorded, &ours), expected);
}
