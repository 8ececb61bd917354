//! Spec of a MeshMultiZoneService.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::LabelSelector;

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["selector"]))]
pub struct MeshMultiZoneService {
    /// The MeshServices whose endpoints it combines.
    pub selector: Selector,
    /// Ports of the selected MeshServices. A MeshService without such a port adds no endpoints.
    #[schemars(length(min = 1))]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ports: Vec<Port>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["meshService"]))]
pub struct Selector {
    /// At least one label is required.
    pub mesh_service: LabelSelector,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["port"]))]
pub struct Port {
    /// Name of the port in policies and KRIs. Its number by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The port that clients connect to, which is also the port of the MeshServices.
    pub port: u32,
    /// Protocol: `tcp`, `http`, `http2`, `grpc` or `kafka`. `tcp` by default.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub app_protocol: String,
}

impl Default for Port {
    fn default() -> Self {
        Self { name: None, port: 0, app_protocol: "tcp".to_owned() }
    }
}
