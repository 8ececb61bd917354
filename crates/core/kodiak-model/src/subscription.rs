//! Connections of a proxy to control planes, as recorded in its insight.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::proto_json::{Counter, is_default};

/// One connection. Times are RFC 3339.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Subscription {
    #[serde(skip_serializing_if = "is_default")]
    pub id: String,
    /// Control plane instance at the other end.
    #[serde(skip_serializing_if = "is_default")]
    pub control_plane_instance_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connect_time: Option<String>,
    /// Missing while the connection is open.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disconnect_time: Option<String>,
    pub status: SubscriptionStatus,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<Version>,
    /// Increases while the control plane that holds the connection is alive.
    #[serde(skip_serializing_if = "is_default")]
    pub generation: u32,
}

impl Subscription {
    pub fn is_open(&self) -> bool {
        self.connect_time.is_some() && self.disconnect_time.is_none()
    }
}

/// Configuration sent on a connection, by xDS type.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct SubscriptionStatus {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_update_time: Option<String>,
    pub total: Responses,
    pub cds: Responses,
    pub eds: Responses,
    pub lds: Responses,
    pub rds: Responses,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Responses {
    #[serde(skip_serializing_if = "is_default")]
    pub responses_sent: Counter,
    #[serde(skip_serializing_if = "is_default")]
    pub responses_acknowledged: Counter,
    #[serde(skip_serializing_if = "is_default")]
    pub responses_rejected: Counter,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Version {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kuma_dp: Option<KumaDpVersion>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub envoy: Option<EnvoyVersion>,
    /// Versions of other processes of the sidecar, such as its DNS server.
    #[serde(skip_serializing_if = "is_default")]
    pub dependencies: BTreeMap<String, String>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct KumaDpVersion {
    #[serde(skip_serializing_if = "is_default")]
    pub version: String,
    #[serde(skip_serializing_if = "is_default")]
    pub git_tag: String,
    #[serde(skip_serializing_if = "is_default")]
    pub git_commit: String,
    #[serde(skip_serializing_if = "is_default")]
    pub build_date: String,
    #[serde(skip_serializing_if = "is_default")]
    pub kuma_cp_compatible: bool,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct EnvoyVersion {
    #[serde(skip_serializing_if = "is_default")]
    pub version: String,
    #[serde(skip_serializing_if = "is_default")]
    pub build: String,
    #[serde(skip_serializing_if = "is_default")]
    pub kuma_dp_compatible: bool,
}
