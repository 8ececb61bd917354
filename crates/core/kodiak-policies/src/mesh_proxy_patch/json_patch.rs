//! JSON Patch (RFC 6902), without its `test` operation.

use kodiak_model::{Choice, FieldPath, Problems, words};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

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
