//! Keeps a spec as its author wrote it.
//!
//! A spec as its type has every default. Stored text has only the fields that were written: defaults in it would show
//! what nobody wrote, and would override the fields of weaker policies.

use serde_json::{Map, Value};

/// The fields of `written`, in the order and the canonical spelling of `complete`, which is the same spec as its type.
pub fn as_written(complete: Value, written: &Value) -> Value {
    match (complete, written) {
        (Value::Object(complete), Value::Object(written)) => {
            let mut fields: Map<String, Value> = complete
                .into_iter()
                .filter_map(|(name, value)| {
                    let value = as_written(value, written.get(&name)?);
                    Some((name, value))
                })
                .collect();
            // Types omit empty values.
            for (name, value) in written {
                if !fields.contains_key(name) {
                    fields.insert(name.clone(), value.clone());
                }
            }
            Value::Object(fields)
        }
        (Value::Array(complete), Value::Array(written)) if complete.len() == written.len() => {
            complete.into_iter().zip(written).map(|(complete, written)| as_written(complete, written)).collect()
        }
        // 20 is also 20.0.
        (Value::Number(complete), Value::Number(written)) if complete.as_f64() == written.as_f64() => {
            Value::Number(written.clone())
        }
        (complete, _) => complete,
    }
}

/// `written` with the difference between `old` and `new`, the same spec as its type before and after a change.
pub fn changed(written: &Value, old: &Value, new: Value) -> Value {
    match (written, old, new) {
        (Value::Object(written), Value::Object(old), Value::Object(new)) => {
            let mut fields = Map::new();
            for (name, new) in new {
                match (written.get(&name), old.get(&name)) {
                    (Some(written), Some(old)) => drop(fields.insert(name, changed(written, old, new))),
                    (None, Some(old)) if *old == new => (),
                    _ => drop(fields.insert(name, new)),
                }
            }
            for (name, value) in written {
                if !fields.contains_key(name) && !old.contains_key(name) {
                    fields.insert(name.clone(), value.clone());
                }
            }
            Value::Object(fields)
        }
        (Value::Array(written), Value::Array(old), Value::Array(new))
            if written.len() == old.len() && old.len() == new.len() =>
        {
            written.iter().zip(old).zip(new).map(|((written, old), new)| changed(written, old, new)).collect()
        }
        (_, _, new) => new,
    }
}

/// Form of a policy in which confs are merged: a conf has only the fields that were written, so that it overrides no
/// others. Items of lists inside a conf are complete, because lists are replaced as a whole, and compared.
pub fn mergeable(complete: Value, written: &Value) -> Value {
    fields(complete, written, &|complete, written| match (complete, written) {
        (Value::Array(complete), Value::Array(written)) => {
            complete.into_iter().zip(written).map(|(complete, written)| conf(complete, written)).collect()
        }
        (complete, written) => conf(complete, written),
    })
}

fn conf(complete: Value, written: &Value) -> Value {
    fields(complete, written, &conf)
}

fn fields(complete: Value, written: &Value, field: &dyn Fn(Value, &Value) -> Value) -> Value {
    let (Value::Object(complete), Value::Object(written)) = (&complete, written) else { return complete };
    let fields = complete.iter().filter_map(|(name, value)| {
        let value = field(value.clone(), written.get(name)?);
        Some((name.clone(), value))
    });
    Value::Object(fields.collect())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn defaults_are_left_out_and_spellings_are_canonical() {
        let complete = json!({ "b": { "x": "1m0s", "y": 2 }, "c": [{ "name": "n", "weight": 1 }], "d": "default" });
        let written = json!({ "c": [{ "name": "n" }], "b": { "x": "60s" }, "e": [] });
        let expected = r#"{"b":{"x":"1m0s"},"c":[{"name":"n"}],"e":[]}"#;
        assert_eq!(as_written(complete, &written).to_string(), expected);
    }

    #[test]
    fn a_change_adds_no_defaults() {
        let written = json!({ "ports": [{ "port": 80 }], "empty": {}, "gone": 1 });
        let old = json!({ "state": "Unavailable", "ports": [{ "port": 80, "protocol": "tcp" }], "gone": 1 });
        let new = json!({ "state": "Unavailable", "ports": [{ "port": 81, "protocol": "tcp" }], "more": true });
        let expected = json!({ "ports": [{ "port": 81 }], "empty": {}, "more": true });
        assert_eq!(changed(&written, &old, new), expected);
    }

    #[test]
    fn only_lists_inside_a_conf_have_defaults() {
        let complete = json!({ "to": [{ "default": { "a": 1, "o": { "b": 2, "c": 3 }, "refs": [{ "weight": 1 }] } }] });
        let written = json!({ "to": [{ "default": { "o": { "c": 3 }, "refs": [{}] } }] });
        let expected = json!({ "to": [{ "default": { "o": { "c": 3 }, "refs": [{ "weight": 1 }] } }] });
        assert_eq!(mergeable(complete, &written), expected);
    }
}
