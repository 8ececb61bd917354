//! Status of a MeshOpenTelemetryBackend.

use serde::{Deserialize, Serialize};

use crate::{Condition, Status};

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MeshOpenTelemetryBackendStatus {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

impl Status for MeshOpenTelemetryBackendStatus {
    const PRESENT: bool = true;
}
