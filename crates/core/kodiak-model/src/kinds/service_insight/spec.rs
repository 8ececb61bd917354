//! Spec of a ServiceInsight, written by the control plane.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    Choice,
    proto_json::{is_default, is_first, word_or_first},
    words,
};

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ServiceInsight {
    #[serde(skip_serializing_if = "is_default")]
    pub services: BTreeMap<String, Service>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Service {
    #[serde(skip_serializing_if = "is_first")]
    pub status: Option<Choice<ServiceStatus>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dataplanes: Option<ServiceDataplanes>,
    /// Number of proxies by the backend that issued their certificate.
    #[serde(skip_serializing_if = "is_default")]
    pub issued_backends: BTreeMap<String, u32>,
    /// Missing for internal services.
    #[serde(skip_serializing_if = "is_first")]
    pub service_type: Option<Choice<ServiceType>>,
    /// Hostname and port of the service, such as `web.mesh:80`. Only internal services have one.
    #[serde(skip_serializing_if = "is_default")]
    pub address_port: String,
    #[serde(skip_serializing_if = "is_default")]
    pub zones: Vec<String>,
}

impl Service {
    pub fn service_type(&self) -> ServiceType {
        word_or_first(self.service_type.as_ref())
    }
}

words! {
    pub enum ServiceStatus {
        Unset = "none",
        Offline = "offline",
        PartiallyDegraded = "partially_degraded",
        Online = "online",
        /// External services are not monitored.
        NotAvailable = "not_available",
    }
}

words! {
    pub enum ServiceType {
        Internal = "internal",
        External = "external",
        GatewayDelegated = "gateway_delegated",
        GatewayBuiltin = "gateway_builtin",
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ServiceDataplanes {
    #[serde(skip_serializing_if = "is_default")]
    pub total: u32,
    #[serde(skip_serializing_if = "is_default")]
    pub online: u32,
    #[serde(skip_serializing_if = "is_default")]
    pub offline: u32,
}
