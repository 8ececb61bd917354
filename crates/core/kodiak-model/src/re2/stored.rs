//! Invalid expressions in resources that were stored before expressions were validated.

use serde_json::Value;

/// Path and error of each expression in a spec that Envoy cannot compile. Policies write an expression as `value`
/// beside the `type` `RegularExpression`.
pub fn invalid_in(spec: &Value) -> Vec<(String, String)> {
    let mut invalid = Vec::new();
    let mut open = vec![("spec".to_owned(), spec)];
    while let Some((path, value)) = open.pop() {
        match value {
            Value::Array(list) => {
                open.extend(list.iter().enumerate().map(|(n, value)| (format!("{path}[{n}]"), value)));
            }
            Value::Object(map) => {
                let is_regex = map.get("type").and_then(Value::as_str) == Some("RegularExpression");
                let expression = map.get("value").and_then(Value::as_str).filter(|_| is_regex);
                if let Some(Err(reason)) = expression.map(super::check) {
                    invalid.push((format!("{path}.value"), reason));
                }
                open.extend(map.iter().map(|(key, value)| (format!("{path}.{key}"), value)));
            }
            _ => (),
        }
    }
    invalid.sort();
    invalid
}
