//! Spec of a GlobalSecret.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{kinds::secret::SecretData, proto_json::is_default};

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct GlobalSecret {
    /// Base64.
    #[serde(skip_serializing_if = "is_default")]
    pub data: SecretData,
}
