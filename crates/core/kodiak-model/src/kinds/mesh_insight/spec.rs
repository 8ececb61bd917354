//! Spec of a MeshInsight, written by the control plane.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::proto_json::is_default;

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct MeshInsight {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dataplanes: Option<DataplaneStat>,
    /// The policies among `resources`.
    #[serde(skip_serializing_if = "is_default")]
    pub policies: BTreeMap<String, ResourceStat>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dp_versions: Option<DpVersions>,
    #[serde(rename = "mTLS", skip_serializing_if = "Option::is_none")]
    pub mtls: Option<MtlsStat>,
    /// Missing in `Exclusive` mode, which has no services by tags.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub services: Option<ServiceStat>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dataplanes_by_type: Option<DataplanesByType>,
    /// By kind.
    #[serde(skip_serializing_if = "is_default")]
    pub resources: BTreeMap<String, ResourceStat>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct DataplaneStat {
    #[serde(skip_serializing_if = "is_default")]
    pub total: u32,
    #[serde(skip_serializing_if = "is_default")]
    pub online: u32,
    #[serde(skip_serializing_if = "is_default")]
    pub offline: u32,
    #[serde(skip_serializing_if = "is_default")]
    pub partially_degraded: u32,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ResourceStat {
    #[serde(skip_serializing_if = "is_default")]
    pub total: u32,
}

/// Proxies by the versions of Envoy and `kodiak dp`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct DpVersions {
    #[serde(skip_serializing_if = "is_default")]
    pub kuma_dp: BTreeMap<String, DataplaneStat>,
    #[serde(skip_serializing_if = "is_default")]
    pub envoy: BTreeMap<String, DataplaneStat>,
}

/// Proxies by the backend that issued their certificates, and by the backends they trust.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct MtlsStat {
    #[serde(skip_serializing_if = "is_default")]
    pub issued_backends: BTreeMap<String, DataplaneStat>,
    #[serde(skip_serializing_if = "is_default")]
    pub supported_backends: BTreeMap<String, DataplaneStat>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ServiceStat {
    #[serde(skip_serializing_if = "is_default")]
    pub total: u32,
    #[serde(skip_serializing_if = "is_default")]
    pub internal: u32,
    #[serde(skip_serializing_if = "is_default")]
    pub external: u32,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct DataplanesByType {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub standard: Option<DataplaneStat>,
    /// Delegated and builtin gateways together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gateway: Option<DataplaneStat>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gateway_builtin: Option<DataplaneStat>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gateway_delegated: Option<DataplaneStat>,
}
