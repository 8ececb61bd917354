//! Spec of a Dataplane.

mod inbound;
mod listener;
mod outbound;
mod probes;
mod transparent_proxying;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    Choice,
    kinds::mesh::MetricsBackend,
    proto_json::{is_default, is_first, word_or_first},
    words,
};

pub use inbound::{Health, Inbound, InboundState, ServiceProbe, TcpProbe};
pub use listener::{Listener, ListenerState, ListenerType};
pub use outbound::{BackendKind, Outbound, OutboundBackendRef};
pub use probes::{ProbeEndpoint, Probes};
pub use transparent_proxying::{IpFamilyMode, ReachableBackendRef, ReachableBackends, TransparentProxying};

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Dataplane {
    /// Address, inbounds and outbounds of the proxy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub networking: Option<Networking>,
    /// Settings of the mesh's metrics backend that this proxy overrides. Prefer MeshMetric.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metrics: Option<MetricsBackend>,
    /// Endpoints that are served without mTLS. Deprecated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub probes: Option<Probes>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Networking {
    /// IP or DNS name at which other proxies and the control plane reach this proxy.
    #[serde(skip_serializing_if = "is_default")]
    pub address: String,
    /// Address at which other proxies reach this proxy when `address` is private. The proxy still listens on `address`.
    #[serde(skip_serializing_if = "is_default")]
    pub advertised_address: String,
    /// Makes the proxy a gateway.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gateway: Option<Gateway>,
    /// Ports of the service of this proxy.
    #[serde(skip_serializing_if = "is_default")]
    pub inbound: Vec<Inbound>,
    /// Destinations of this proxy, each on a local port.
    #[serde(skip_serializing_if = "is_default")]
    pub outbound: Vec<Outbound>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transparent_proxying: Option<TransparentProxying>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub admin: Option<EnvoyAdmin>,
    /// Zone ingress and zone egress that this proxy serves for its mesh.
    #[serde(skip_serializing_if = "is_default")]
    pub listeners: Vec<Listener>,
}

words! {
    pub enum GatewayType {
        Delegated = "DELEGATED",
        Builtin = "BUILTIN",
    }
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Gateway {
    /// Must include `kuma.io/service` unless empty.
    #[serde(skip_serializing_if = "is_default")]
    pub tags: BTreeMap<String, String>,
    /// A DELEGATED gateway (the default) is another process beside this proxy; a BUILTIN one is this proxy itself.
    #[serde(rename = "type", skip_serializing_if = "is_first")]
    pub gateway_type: Option<Choice<GatewayType>>,
}

impl Gateway {
    pub fn gateway_type(&self) -> GatewayType {
        word_or_first(self.gateway_type.as_ref())
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct EnvoyAdmin {
    /// Local port of Envoy's admin API. 9901 by default.
    #[serde(skip_serializing_if = "is_default")]
    pub port: u32,
}
