//! Configuration of extensions, which only some builds of the control plane support.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{FieldPath, Problems};

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["type"]))]
pub struct Extension {
    /// Name of the extension.
    #[serde(rename = "type")]
    pub extension_type: String,
    /// Only the extension reads it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub config: Option<Value>,
}

impl Extension {
    pub fn check(&self, at: &FieldPath<'_>, problems: &mut Problems) {
        problems.require(!self.extension_type.is_empty(), &at.field("type"), "must not be empty");
    }
}
