//! A service that the proxy calls, on a local port.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Choice, proto_json::is_default, words};

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Outbound {
    /// The address under which the service is seen. 127.0.0.1 by default.
    #[serde(skip_serializing_if = "is_default")]
    pub address: String,
    #[serde(skip_serializing_if = "is_default")]
    pub port: u32,
    /// Calls the proxies with these tags; `kuma.io/service` is needed.
    #[serde(skip_serializing_if = "is_default")]
    pub tags: BTreeMap<String, String>,
    /// Calls a service object, instead of proxies by their tags.
    #[serde(rename = "backendRef", skip_serializing_if = "Option::is_none")]
    pub backend_ref: Option<OutboundBackendRef>,
}

words! {
    /// The kinds that proxies can call.
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
    /// Not needed for MeshExternalService.
    #[serde(skip_serializing_if = "is_default")]
    pub port: u32,
    /// Selects the service instead of `name`. Must match only one.
    #[serde(skip_serializing_if = "is_default")]
    pub labels: BTreeMap<String, String>,
}

impl Outbound {
    pub const DEFAULT_ADDRESS: &'static str = "127.0.0.1";

    pub fn address(&self) -> &str {
        if self.address.is_empty() { Self::DEFAULT_ADDRESS } else { &self.address }
    }
}
