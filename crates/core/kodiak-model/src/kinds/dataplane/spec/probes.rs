//! Endpoints of the service that are served without mTLS. Deprecated.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::proto_json::is_default;

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Probes {
    /// The port on which all endpoints are served.
    #[serde(skip_serializing_if = "is_default")]
    pub port: u32,
    #[serde(skip_serializing_if = "is_default")]
    pub endpoints: Vec<ProbeEndpoint>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ProbeEndpoint {
    /// The port of the service.
    #[serde(skip_serializing_if = "is_default")]
    pub inbound_port: u32,
    /// The path at the service.
    #[serde(skip_serializing_if = "is_default")]
    pub inbound_path: String,
    /// The path under which it is served.
    #[serde(skip_serializing_if = "is_default")]
    pub path: String,
}
