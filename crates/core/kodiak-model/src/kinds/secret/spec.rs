//! Spec of a Secret.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::SecretData;
use crate::proto_json::is_default;

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Secret {
    /// Base64.
    #[serde(skip_serializing_if = "is_default")]
    pub data: SecretData,
}
