//! Deviation about defaults in specs.

use kodiak_kinds::kinds;
use kodiak_model::Shape;
use serde_json::Value;

/// [`super::NO_DEFAULTS`]: a spec is expected as it was found if both mean the same.
pub(crate) fn without(expected: &mut Value, found: &Value) {
    match (expected, found) {
        (Value::Object(expected), Value::Object(found)) => {
            let kind = expected.get("type").and_then(Value::as_str).and_then(|name| kinds().by_name(name));
            let kind = kind.filter(|kind| kind.shape == Shape::Plugin);
            if let (Some(kind), Some(wanted), Some(spec)) = (kind, expected.get("spec"), found.get("spec")) {
                let complete = |spec: &Value| (kind.language.complete)(&spec.to_string()).ok();
                if complete(wanted).is_some() && complete(wanted) == complete(spec) {
                    expected.insert("spec".to_owned(), spec.clone());
                }
            }
            for (name, expected) in expected.iter_mut() {
                without(expected, found.get(name).unwrap_or(&Value::Null));
            }
        }
        (Value::Array(expected), Value::Array(found)) => {
            expected.iter_mut().zip(found).for_each(|(expected, found)| without(expected, found));
        }
        _ => (),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_defaults_are_removed() {
        let service = |ports: Value| json!({ "type": "MeshService", "spec": { "ports": ports } });
        let found = service(json!([{ "port": 80 }]));
        let mut expected = service(json!([{ "port": 80, "appProtocol": "tcp" }]));
        without(&mut expected, &found);
        assert_eq!(expected, found);
        let http = service(json!([{ "port": 80, "appProtocol": "http" }]));
        let mut expected = http.clone();
        without(&mut expected, &found);
        assert_eq!(expected, http);
    }
}
