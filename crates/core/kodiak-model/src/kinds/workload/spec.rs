//! Spec of a Workload.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Has no fields: a workload is only a name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Workload {}
