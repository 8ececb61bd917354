//! What users write.

use kodiak_model::{GoDuration, TargetRef};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::from_to::{Item, Rule};

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct MeshTimeout {
    /// The proxies this policy is for. All of the mesh when missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_ref: Option<TargetRef>,
    /// For calls that these proxies make.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<Vec<Item<Conf>>>,
    /// For calls that these proxies receive. The older form of `rules`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<Vec<Item<Conf>>>,
    /// For calls that these proxies receive.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rules: Option<Vec<Rule<Conf>>>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Conf {
    /// How long to wait for a connection. 5s by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connection_timeout: Option<GoDuration>,
    /// How long a connection may carry nothing. 1h by default; 0s means forever.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle_timeout: Option<GoDuration>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub http: Option<Http>,
}

/// 0s switches a timeout off.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Http {
    /// From the whole request to the whole response. 15s by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_timeout: Option<GoDuration>,
    /// How long a stream may carry nothing. 30m by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stream_idle_timeout: Option<GoDuration>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_stream_duration: Option<GoDuration>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_connection_duration: Option<GoDuration>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_headers_timeout: Option<GoDuration>,
}
