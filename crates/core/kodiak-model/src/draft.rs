//! A resource before validation: an envelope around untyped JSON.

use serde_json::{Map, Value};

use crate::{FieldPath, Problems, Shape, labels::Labels};

/// [`check`](crate::check::check) turns it into a [`Checked`](crate::check::Checked).
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Draft {
    pub kind: String,
    pub mesh: Option<String>,
    pub name: String,
    pub labels: Labels,
    /// The fields beside the envelope for legacy kinds, `spec` for plugin kinds. `None` when missing.
    pub spec: Option<Value>,
    /// Read from exported files; the API ignores it.
    pub status: Option<Value>,
    /// Unknown top-level fields of a plugin kind.
    pub unknown: Vec<String>,
}

/// Set by the server; accepted so that a response body can be sent back in a request.
const SERVER_FIELDS: [&str; 4] = ["creationTime", "modificationTime", "kri", "snis"];

impl Draft {
    /// Splits a document into its envelope and its spec.
    pub fn from_value(document: Value, shape_of: impl Fn(&str) -> Option<Shape>) -> Result<Self, Problems> {
        let mut problems = Problems::default();
        let Value::Object(mut map) = document else {
            problems.add(&FieldPath::ROOT, "a resource must be an object with type, name and its fields");
            return Err(problems);
        };
        if map.contains_key("apiVersion") && map.contains_key("metadata") {
            problems.add(
                &FieldPath::ROOT.field("apiVersion"),
                "this is the Kubernetes form; write type, mesh, name and labels at the top instead of apiVersion, kind and metadata",
            );
            return Err(problems);
        }
        let kind = text(&mut map, "type", &mut problems);
        let name = text(&mut map, "name", &mut problems);
        let mesh = text(&mut map, "mesh", &mut problems);
        let labels = labels(&mut map, &mut problems);
        for field in SERVER_FIELDS {
            map.remove(field);
        }
        if !problems.is_empty() {
            return Err(problems);
        }
        let kind = kind.unwrap_or_default();
        let shape = shape_of(&kind).unwrap_or(Shape::Plugin);
        let mut draft = Self { kind, mesh, name: name.unwrap_or_default(), labels, ..Self::default() };
        draft.status = map.remove("status").filter(|status| !status.is_null());
        match shape {
            Shape::Legacy => draft.spec = Some(Value::Object(map)),
            Shape::Plugin => {
                draft.spec = map.remove("spec").filter(|spec| !spec.is_null());
                draft.unknown = map.keys().cloned().collect();
            }
        }
        Ok(draft)
    }
}

fn text(map: &mut Map<String, Value>, field: &str, problems: &mut Problems) -> Option<String> {
    match map.remove(field)? {
        Value::Null => None,
        Value::String(text) => Some(text),
        other => {
            problems.add(&FieldPath::ROOT.field(field), wrong_type(field, &other));
            None
        }
    }
}

/// Kuma's wording, which API clients match on.
fn wrong_type(field: &str, found: &Value) -> String {
    format!("json: cannot unmarshal {} into Go struct field ResourceMeta.{field} of type string", json_type(found))
}

fn json_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

fn labels(map: &mut Map<String, Value>, problems: &mut Problems) -> Labels {
    let mut labels = Labels::new();
    match map.remove("labels") {
        None | Some(Value::Null) => (),
        Some(Value::Object(written)) => {
            for (key, value) in written {
                match value {
                    Value::String(text) => {
                        labels.insert(key, text);
                    }
                    other => problems.add(&FieldPath::LABELS.key(&key), wrong_type("labels", &other)),
                }
            }
        }
        Some(other) => {
            problems.add(&FieldPath::LABELS, wrong_type("labels", &other).replace("string", "map[string]string"));
        }
    }
    labels
}
