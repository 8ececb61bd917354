//! Spec of a ZoneInsight, written by the global control plane.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{proto_json::is_default, subscription::Responses};

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ZoneInsight {
    /// Connections of the zone, the latest last.
    #[serde(skip_serializing_if = "is_default")]
    pub subscriptions: Vec<KdsSubscription>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub health_check: Option<HealthCheck>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kds_streams: Option<KdsStreams>,
}

/// One connection of a zone. Times are RFC 3339.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct KdsSubscription {
    #[serde(skip_serializing_if = "is_default")]
    pub id: String,
    #[serde(skip_serializing_if = "is_default")]
    pub global_instance_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connect_time: Option<String>,
    /// Missing while the connection is open.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disconnect_time: Option<String>,
    pub status: KdsStatus,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<ZoneVersion>,
    /// Increases while the control plane that holds the connection is alive.
    #[serde(skip_serializing_if = "is_default")]
    pub generation: u32,
    /// The configuration of the zone's control plane, as JSON without secrets.
    #[serde(skip_serializing_if = "is_default")]
    pub config: String,
    #[serde(skip_serializing_if = "is_default")]
    pub auth_token_provided: bool,
    /// The leader of the zone's control planes when it connected.
    #[serde(skip_serializing_if = "is_default")]
    pub zone_instance_id: String,
}

impl KdsSubscription {
    pub fn is_open(&self) -> bool {
        self.connect_time.is_some() && self.disconnect_time.is_none()
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct KdsStatus {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_update_time: Option<String>,
    pub total: Responses,
    /// By kind.
    #[serde(skip_serializing_if = "is_default")]
    pub stat: BTreeMap<String, Responses>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ZoneVersion {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kuma_cp: Option<KumaCpVersion>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct KumaCpVersion {
    #[serde(skip_serializing_if = "is_default")]
    pub version: String,
    #[serde(skip_serializing_if = "is_default")]
    pub git_tag: String,
    #[serde(skip_serializing_if = "is_default")]
    pub git_commit: String,
    #[serde(skip_serializing_if = "is_default")]
    pub build_date: String,
    #[serde(skip_serializing_if = "is_default")]
    pub kuma_cp_global_compatible: bool,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct HealthCheck {
    /// Time of the last health check from the zone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time: Option<String>,
}

/// Global control plane instance of each KDS stream of the zone.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct KdsStreams {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub global_to_zone: Option<KdsStream>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zone_to_global: Option<KdsStream>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub config_dump: Option<KdsStream>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stats: Option<KdsStream>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clusters: Option<KdsStream>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct KdsStream {
    #[serde(skip_serializing_if = "is_default")]
    pub global_instance_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connect_time: Option<String>,
}
