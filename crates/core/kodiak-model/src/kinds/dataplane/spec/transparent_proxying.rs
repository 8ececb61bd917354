//! Calls that the proxy takes over by themselves, and what may be reached with them.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::BackendKind;
use crate::{
    Choice,
    proto_json::{is_default, is_first},
    words,
};

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct TransparentProxying {
    /// The port that all incoming connections are redirected to.
    #[serde(skip_serializing_if = "is_default")]
    pub redirect_port_inbound: u32,
    /// The port that all outgoing connections are redirected to.
    #[serde(skip_serializing_if = "is_default")]
    pub redirect_port_outbound: u32,
    /// Services that are called by the addresses of their instances. `*` means all, and costs a lot.
    #[serde(skip_serializing_if = "is_default")]
    pub direct_access_services: Vec<String>,
    /// Values of `kuma.io/service` that this proxy calls. All when missing.
    #[serde(skip_serializing_if = "is_default")]
    pub reachable_services: Vec<String>,
    #[serde(skip_serializing_if = "is_first")]
    pub ip_family_mode: Option<Choice<IpFamilyMode>>,
    /// Services that this proxy calls. All when missing; none when `refs` is empty.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reachable_backends: Option<ReachableBackends>,
}

words! {
    pub enum IpFamilyMode {
        UnSpecified = "UnSpecified",
        DualStack = "DualStack",
        IPv4 = "IPv4",
        IPv6 = "IPv6",
    }
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ReachableBackends {
    #[serde(skip_serializing_if = "is_default")]
    pub refs: Vec<ReachableBackendRef>,
}

/// One service by its name, or every service with these labels.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ReachableBackendRef {
    /// MeshService, MeshExternalService or MeshMultiZoneService.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub kind: Option<Choice<BackendKind>>,
    #[serde(skip_serializing_if = "is_default")]
    pub name: String,
    /// The namespace of this Dataplane by default.
    #[serde(skip_serializing_if = "is_default")]
    pub namespace: String,
    /// All ports of the service when missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<u32>,
    /// Instead of `name`, `namespace` and `port`.
    #[serde(skip_serializing_if = "is_default")]
    pub labels: BTreeMap<String, String>,
}
