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

/// `reachableBackendRefs` is read as another spelling of `reachableBackends.refs`: one reference, or a list.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, try_from = "WrittenTransparentProxying")]
#[schemars(with = "WrittenTransparentProxying")]
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

/// With both spellings.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
struct WrittenTransparentProxying {
    /// Port that all inbound connections are redirected to.
    #[serde(skip_serializing_if = "is_default")]
    redirect_port_inbound: u32,
    /// Port that all outbound connections are redirected to.
    #[serde(skip_serializing_if = "is_default")]
    redirect_port_outbound: u32,
    /// Services that can be called by the addresses of their instances. `*` means all, which makes the configuration
    /// large.
    #[serde(skip_serializing_if = "is_default")]
    direct_access_services: Vec<String>,
    /// Values of `kuma.io/service` that this proxy calls. All when missing.
    #[serde(skip_serializing_if = "is_default")]
    reachable_services: Vec<String>,
    #[serde(skip_serializing_if = "is_first")]
    ip_family_mode: Option<Choice<IpFamilyMode>>,
    /// Destinations of this proxy. All when missing; none when `refs` is empty.
    #[serde(skip_serializing_if = "Option::is_none")]
    reachable_backends: Option<ReachableBackends>,
    /// Another spelling of `reachableBackends.refs`: one reference, or a list of them.
    #[schemars(with = "Option<serde_json::Value>")]
    #[serde(skip_serializing_if = "Option::is_none")]
    reachable_backend_refs: Option<OneOrMany>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum OneOrMany {
    Many(Vec<ReachableBackendRef>),
    One(ReachableBackendRef),
}

impl TryFrom<WrittenTransparentProxying> for TransparentProxying {
    type Error = &'static str;

    fn try_from(written: WrittenTransparentProxying) -> Result<Self, Self::Error> {
        let WrittenTransparentProxying {
            redirect_port_inbound,
            redirect_port_outbound,
            direct_access_services,
            reachable_services,
            ip_family_mode,
            reachable_backends,
            reachable_backend_refs,
        } = written;
        let reachable_backends = match (reachable_backends, reachable_backend_refs) {
            (Some(_), Some(_)) => {
                return Err("reachableBackendRefs and reachableBackends are the same list: write one of them");
            }
            (written, None) => written,
            (None, Some(OneOrMany::Many(refs))) => Some(ReachableBackends { refs }),
            (None, Some(OneOrMany::One(one))) => Some(ReachableBackends { refs: vec![one] }),
        };
        Ok(Self {
            redirect_port_inbound,
            redirect_port_outbound,
            direct_access_services,
            reachable_services,
            ip_family_mode,
            reachable_backends,
        })
    }
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

/// One destination by name, or every destination with these labels. `labels: {}` means all destinations of the kind.
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
    /// Instead of `name`, `namespace` and `port`. Without any label, all destinations of the kind.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub labels: Option<BTreeMap<String, String>>,
}
