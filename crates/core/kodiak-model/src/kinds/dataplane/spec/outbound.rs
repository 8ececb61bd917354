//! Outbound: a destination of the proxy, on a local port.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Choice, proto_json::is_default, words};

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Outbound {
    /// Local address of the outbound. 127.0.0.1 by default.
    #[serde(skip_serializing_if = "is_default")]
    pub address: String,
    #[serde(skip_serializing_if = "is_default")]
    pub port: u32,
    /// Selects the destination by tags; `kuma.io/service` is required.
    #[serde(skip_serializing_if = "is_default")]
    pub tags: BTreeMap<String, String>,
    /// Selects the destination by reference, instead of by tags.
    #[serde(rename = "backendRef", skip_serializing_if = "Option::is_none")]
    pub backend_ref: Option<OutboundBackendRef>,
}

words! {
    /// Kinds of destinations.
    pub enum BackendKind {
        MeshExternalService = "MeshExternalService",
        MeshMultiZoneService = "MeshMultiZoneService",
        MeshService = "MeshService",
    }
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct OutboundBackendRef {
    /// MeshService, MeshExternalService or MeshMultiZoneService.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub kind: Option<Choice<BackendKind>>,
    #[serde(skip_serializing_if = "is_default")]
    pub name: String,
    /// The namespace of this Dataplane by default.
    #[serde(skip_serializing_if = "is_default")]
    pub namespace: String,
    /// Not required for MeshExternalService, which has one port.
    #[serde(skip_serializing_if = "is_default")]
    pub port: u32,
    /// Selects the destination by labels, instead of by `name`. Must match only one.
    #[serde(skip_serializing_if = "is_default")]
    pub labels: BTreeMap<String, String>,
}

impl Outbound {
    pub const DEFAULT_ADDRESS: &'static str = "127.0.0.1";

    pub fn address(&self) -> &str {
        if self.address.is_empty() { Self::DEFAULT_ADDRESS } else { &self.address }
    }
}
