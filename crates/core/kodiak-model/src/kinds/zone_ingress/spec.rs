//! Spec of a ZoneIngress.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{kinds::dataplane::EnvoyAdmin, proto_json::is_default};

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ZoneIngress {
    /// The zone of the ingress. Set by the global control plane.
    #[serde(skip_serializing_if = "is_default")]
    pub zone: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub networking: Option<Networking>,
    /// Services that are reachable through the ingress. Set by the control plane.
    #[serde(skip_serializing_if = "is_default")]
    pub available_services: Vec<AvailableService>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Networking {
    /// The address that the ingress listens on.
    #[serde(skip_serializing_if = "is_default")]
    pub address: String,
    /// The address at which other zones reach the ingress.
    #[serde(skip_serializing_if = "is_default")]
    pub advertised_address: String,
    /// The port that the ingress listens on.
    #[serde(skip_serializing_if = "is_default")]
    pub port: u32,
    /// The port at which other zones reach the ingress.
    #[serde(skip_serializing_if = "is_default")]
    pub advertised_port: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub admin: Option<EnvoyAdmin>,
}

/// Instances with these tags.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct AvailableService {
    #[serde(skip_serializing_if = "is_default")]
    pub tags: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "is_default")]
    pub instances: u32,
    #[serde(skip_serializing_if = "is_default")]
    pub mesh: String,
    #[serde(skip_serializing_if = "is_default")]
    pub external_service: bool,
}
