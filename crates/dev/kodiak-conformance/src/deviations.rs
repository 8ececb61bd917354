//! What we answer differently on purpose, each as a rule over the expected answer.

use serde_json::Value;

struct Deviation {
    name: &'static str,
    because: &'static str,
}

const UNKNOWN_FIELDS: Deviation = Deviation {
    name: "unknown-fields-are-reported",
    because: "nothing is dropped in silence: a field that nothing reads is accepted, and named in `warnings`",
};

const ALL: &[&Deviation] = &[&UNKNOWN_FIELDS];

pub(crate) fn list() {
    for Deviation { name, because } in ALL {
        println!("{name}: {because}");
    }
}

/// [`UNKNOWN_FIELDS`]: the expected answer of a write gains the warnings about unknown fields.
pub(crate) fn with_unknown_fields(expected: &mut Value, found: &Value) {
    let warnings = found.get("warnings").and_then(Value::as_array);
    let unknown: Vec<Value> = warnings
        .into_iter()
        .flatten()
        .filter(|warning| warning.as_str().is_some_and(|text| text.starts_with("unknown field ")))
        .cloned()
        .collect();
    let Some(body) = expected.as_object_mut().filter(|body| !unknown.is_empty() && !body.contains_key("status")) else {
        return;
    };
    let all = body.entry("warnings").or_insert_with(|| Value::Array(Vec::new()));
    if let Some(all) = all.as_array_mut() {
        all.splice(0..0, unknown);
    }
}
