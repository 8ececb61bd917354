//! Transparent proxying: traffic redirection, and the destinations that the redirected traffic may reach.

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
    /// Port that all inbound connections are redirected to.
    #[serde(skip_serializing_if = "is_default")]
    pub redirect_port_inbound: u32,
    /// Port that all outbound connections are redirected to.
    #[serde(skip_serializing_if = "is_default")]
    pub redirect_port_outbound: u32,
    /// Services that can be called by the addresses of their instances. `*` means all, which makes the configuration
    /// large.
    #[serde(skip_serializing_if = "is_default")]
    pub direct_access_services: Vec<String>,
    /// Values of `kuma.io/service` that this proxy calls. All when missing.
    #[serde(skip_serializing_if = "is_default")]
    pub reachable_services: Vec<String>,
    #[serde(skip_serializing_if = "is_first")]
    pub ip_family_mode: Option<Choice<IpFamilyMode>>,
    /// Destinations of this proxy. All when missing; none when `refs` is empty.
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

/// One destination by name, or every destination with these labels.
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
    /// All ports of the destination when missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<u32>,
    /// Instead of `name`, `namespace` and `port`.
    #[serde(skip_serializing_if = "is_default")]
    pub labels: BTreeMap<String, String>,
}
