//! JSON Patch (RFC 6902), without its `test` operation.

use kodiak_model::{Choice, FieldPath, Problems, words};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

words! {
    pub enum JsonPatchOp {
        Add = "add",
        Remove = "remove",
        Replace = "replace",
        Move = "move",
        Copy = "copy",
    }
}

/// One operation of a JSON Patch.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["op", "path"]))]
pub struct JsonPatch {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub op: Option<Choice<JsonPatchOp>>,
    /// A JSON pointer, such as /connectTimeout.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Value for add and replace: any JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<Value>,
    /// Source of move and copy: a JSON pointer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
}

impl JsonPatch {
    pub(super) fn check(&self, at: &FieldPath<'_>, problems: &mut Problems) {
        let Self { op, path, value, from } = self;
        let op = op.clone().unwrap_or(Choice::Unknown(String::new())).check(at, "op", problems);
        let reads = matches!(op, Some(JsonPatchOp::Move | JsonPatchOp::Copy));
        let writes = matches!(op, Some(JsonPatchOp::Add | JsonPatchOp::Replace));
        match (from, reads) {
            (None, true) => {
                problems.add(&at.field("from"), r#""from" must not be empty when "op" is one of ["move", "copy"]"#);
            }
            (Some(_), false) => {
                problems.add(&at.field("from"), r#""from" is allowed only when "op" is one of ["move", "copy"]"#);
            }
            (None, false) | (Some(_), true) => (),
        }
        match (value, writes) {
            (None, true) => {
                problems.add(&at.field("value"), r#""value" must not be empty when "op" is one of ["add", "replace"]"#);
            }
            (Some(_), false) => {
                problems.add(&at.field("value"), r#""value" is allowed only when "op" is one of ["add", "replace"]"#);
            }
            (None, false) | (Some(_), true) => (),
        }
        match path.as_deref() {
            None => problems.add(&at.field("path"), "must be defined"),
            Some("" | "/") if op == Some(JsonPatchOp::Remove) => {
                problems.add(&at.field("path"), "root path cannot be removed");
            }
            Some(_) => (),
        }
    }
}

/// Applies operations in order.
pub(super) fn apply(document: &mut Value, patches: &[JsonPatch]) -> Result<(), String> {
    patches.iter().try_for_each(|patch| patch.apply(document))
}

impl JsonPatch {
    fn apply(&self, document: &mut Value) -> Result<(), String> {
        let Self { op, path, value, from } = self;
        let path = path.as_deref().unwrap_or_default();
        let from = from.as_deref().unwrap_or_default();
        let value = || value.clone().unwrap_or_default();
        match op.as_ref().and_then(Choice::known) {
            Some(JsonPatchOp::Add) => add(document, path, value()),
            Some(JsonPatchOp::Replace) => {
                *find(document, path)? = value();
                Ok(())
            }
            Some(JsonPatchOp::Remove) => remove(document, path).map(drop),
            Some(JsonPatchOp::Move) => {
                let moved = remove(document, from)?;
                add(document, path, moved)
            }
            Some(JsonPatchOp::Copy) => {
                let copied = find(document, from)?.clone();
                add(document, path, copied)
            }
            None => Err("the operation of a JSON patch is unknown".to_owned()),
        }
    }
}

fn add(document: &mut Value, path: &str, value: Value) -> Result<(), String> {
    let Some((parent, key)) = split(path)? else {
        *document = value;
        return Ok(());
    };
    match find(document, parent)? {
        Value::Object(fields) => {
            let key = spelled(fields, &key);
            fields.insert(key, value);
            Ok(())
        }
        Value::Array(items) => {
            let place = if key == "-" { Some(items.len()) } else { index(&key) };
            let place = place.filter(|place| *place <= items.len()).ok_or_else(|| missing(path))?;
            items.insert(place, value);
            Ok(())
        }
        _ => Err(missing(path)),
    }
}

fn remove(document: &mut Value, path: &str) -> Result<Value, String> {
    let Some((parent, key)) = split(path)? else { return Err("the root cannot be removed".to_owned()) };
    let removed = match find(document, parent)? {
        Value::Object(fields) => fields.shift_remove(&spelled(fields, &key)),
        Value::Array(items) => index(&key).filter(|place| *place < items.len()).map(|place| items.remove(place)),
        _ => None,
    };
    removed.ok_or_else(|| missing(path))
}

fn find<'a>(document: &'a mut Value, path: &str) -> Result<&'a mut Value, String> {
    let Some((parent, key)) = split(path)? else { return Ok(document) };
    let found = match find(document, parent)? {
        Value::Object(fields) => {
            let key = spelled(fields, &key);
            fields.get_mut(&key)
        }
        Value::Array(items) => index(&key).and_then(|place| items.get_mut(place)),
        _ => None,
    };
    found.ok_or_else(|| missing(path))
}

/// Splits off the last key of a JSON pointer. `None` for the whole document.
fn split(path: &str) -> Result<Option<(&str, String)>, String> {
    if path.is_empty() {
        return Ok(None);
    }
    let not_a_pointer = || format!("path {path:?} does not start with \"/\"");
    let (parent, key) = path.rsplit_once('/').filter(|_| path.starts_with('/')).ok_or_else(not_a_pointer)?;
    Ok(Some((parent, key.replace("~1", "/").replace("~0", "~"))))
}

/// Field names are in camel case; one written in snake case stands for the same field.
fn spelled(fields: &Map<String, Value>, key: &str) -> String {
    if fields.contains_key(key) || !key.contains('_') {
        return key.to_owned();
    }
    let mut words = key.split('_');
    let mut camel = words.next().unwrap_or_default().to_owned();
    for word in words {
        let mut letters = word.chars();
        camel.extend(letters.next().map(|first| first.to_ascii_uppercase()));
        camel.push_str(letters.as_str());
    }
    if fields.contains_key(&camel) { camel } else { key.to_owned() }
}

/// RFC 6901 allows no sign and no leading zeros.
fn index(key: &str) -> Option<usize> {
    let index = key.parse().ok()?;
    (key == format!("{index}")).then_some(index)
}

fn missing(path: &str) -> String {
    format!("path {path:?} does not exist")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn patched(document: &Value, patches: &Value) -> Result<Value, String> {
        let mut document = document.clone();
        let patches: Vec<JsonPatch> = serde_json::from_value(patches.clone()).unwrap();
        apply(&mut document, &patches).map(|()| document)
    }

    #[test]
    fn operations_change_fields_and_items() {
        let document = json!({ "a": 1, "list": [1, 2], "o": { "x/y": 1 } });
        for (patches, expected) in [
            (
                json!([{ "op": "add", "path": "/b", "value": 2 }]),
                json!({ "a": 1, "list": [1, 2], "o": { "x/y": 1 }, "b": 2 }),
            ),
            (
                json!([{ "op": "add", "path": "/list/0", "value": 0 }]),
                json!({ "a": 1, "list": [0, 1, 2], "o": { "x/y": 1 } }),
            ),
            (
                json!([{ "op": "add", "path": "/list/-", "value": 3 }]),
                json!({ "a": 1, "list": [1, 2, 3], "o": { "x/y": 1 } }),
            ),
            (
                json!([{ "op": "replace", "path": "/o/x~1y", "value": 2 }]),
                json!({ "a": 1, "list": [1, 2], "o": { "x/y": 2 } }),
            ),
            (json!([{ "op": "remove", "path": "/list/1" }]), json!({ "a": 1, "list": [1], "o": { "x/y": 1 } })),
            (json!([{ "op": "move", "from": "/a", "path": "/o" }]), json!({ "list": [1, 2], "o": 1 })),
            (
                json!([{ "op": "copy", "from": "/a", "path": "/list/0" }]),
                json!({ "a": 1, "list": [1, 1, 2], "o": { "x/y": 1 } }),
            ),
        ] {
            assert_eq!(patched(&document, &patches), Ok(expected), "{patches}");
        }
    }

    #[test]
    fn paths_may_be_in_snake_case() {
        let patches = json!([{ "op": "replace", "path": "/connect_timeout", "value": "2s" }]);
        assert_eq!(patched(&json!({ "connectTimeout": "1s" }), &patches), Ok(json!({ "connectTimeout": "2s" })));
        let patches = json!([{ "op": "add", "path": "/max_retries", "value": 2 }]);
        assert_eq!(patched(&json!({}), &patches), Ok(json!({ "max_retries": 2 })));
    }

    #[test]
    fn missing_paths_are_errors() {
        for (op, path) in
            [("replace", "/b"), ("remove", "/b"), ("add", "/b/c"), ("remove", "/list/2"), ("add", "/list/01")]
        {
            let patch = json!([{ "op": op, "path": path, "value": 1 }]);
            let error = patched(&json!({ "list": [1, 2] }), &patch).unwrap_err();
            assert!(error.starts_with("path \"/") && error.ends_with("does not exist"), "{error}");
        }
    }
}
