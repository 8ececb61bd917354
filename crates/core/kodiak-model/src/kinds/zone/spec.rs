//! Spec of a Zone.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Zone {
    /// A disabled zone keeps running, but exchanges no resources with other zones.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
}
