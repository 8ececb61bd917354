//! Spec of a ZoneEgress.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{kinds::dataplane::EnvoyAdmin, proto_json::is_default};

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ZoneEgress {
    /// The zone of the egress. Set by the global control plane.
    #[serde(skip_serializing_if = "is_default")]
    pub zone: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub networking: Option<Networking>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Networking {
    /// The address that the egress listens on.
    #[serde(skip_serializing_if = "is_default")]
    pub address: String,
    /// The port that the egress listens on.
    #[serde(skip_serializing_if = "is_default")]
    pub port: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub admin: Option<EnvoyAdmin>,
}
