//! Spec of MeshTimeout.

use kodiak_model::{GoDuration, TargetRef};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::from_to::{Item, Rule};

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct MeshTimeout {
    /// The proxies that this policy selects. All proxies of the mesh when missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_ref: Option<TargetRef>,
    /// For outbound traffic of these proxies.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<Vec<Item<Conf>>>,
    /// For inbound traffic of these proxies. The legacy form of `rules`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<Vec<Item<Conf>>>,
    /// For inbound traffic of these proxies.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rules: Option<Vec<Rule<Conf>>>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Conf {
    /// Timeout for establishing a connection. 5s by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connection_timeout: Option<GoDuration>,
    /// How long a connection may be idle. 1h by default; 0s disables the timeout.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle_timeout: Option<GoDuration>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub http: Option<Http>,
}

/// 0s disables a timeout.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Http {
    /// From the complete request to the complete response. 15s by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_timeout: Option<GoDuration>,
    /// How long a stream may be idle. 30m by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stream_idle_timeout: Option<GoDuration>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_stream_duration: Option<GoDuration>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_connection_duration: Option<GoDuration>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_headers_timeout: Option<GoDuration>,
}
