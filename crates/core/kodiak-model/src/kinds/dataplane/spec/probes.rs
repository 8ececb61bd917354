//! Endpoints of the service that are served without mTLS. Deprecated.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::proto_json::is_default;

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Probes {
    /// Port that serves all endpoints.
    #[serde(skip_serializing_if = "is_default")]
    pub port: u32,
    #[serde(skip_serializing_if = "is_default")]
    pub endpoints: Vec<ProbeEndpoint>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ProbeEndpoint {
    /// Port of the service.
    #[serde(skip_serializing_if = "is_default")]
    pub inbound_port: u32,
    /// Path at the service.
    #[serde(skip_serializing_if = "is_default")]
    pub inbound_path: String,
    /// Path at which the endpoint is served.
    #[serde(skip_serializing_if = "is_default")]
    pub path: String,
}
