//! What users write.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A name is all that it has.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Workload {}
