//! Spec of a MeshZoneAddress.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["address", "port"]))]
pub struct MeshZoneAddress {
    /// The address at which proxies of other zones reach the zone ingress: an IP address or a hostname.
    #[schemars(length(min = 1))]
    pub address: String,
    /// The port at which they reach it.
    #[schemars(range(min = 1, max = 65535))]
    pub port: u32,
}
