//! Spec of MeshRateLimit.

use kodiak_model::{GoDuration, TargetRef};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    from_to::{Item, Rule},
    header::HeaderAdditions,
};

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct MeshRateLimit {
    /// The proxies that this policy selects. All proxies of the mesh when missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_ref: Option<TargetRef>,
    /// For outbound traffic of gateways.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<Vec<Item<Conf>>>,
    /// For inbound traffic of sidecars. The legacy form of `rules`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<Vec<Item<Conf>>>,
    /// For inbound traffic of sidecars.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rules: Option<Vec<Rule<Conf>>>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Conf {
    /// Each proxy counts on its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub local: Option<Local>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Local {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub http: Option<LocalHttp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tcp: Option<LocalTcp>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct LocalHttp {
    /// Disables the limit of a broader policy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disabled: Option<bool>,
    /// Maximum rate of requests.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_rate: Option<Rate>,
    /// Response to requests above the limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_rate_limit: Option<OnRateLimit>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct OnRateLimit {
    /// Status of the response. 429 by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<u32>,
    /// Headers of the response.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub headers: Option<HeaderAdditions>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct LocalTcp {
    /// Disables the limit of a broader policy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disabled: Option<bool>,
    /// Maximum rate of connections.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connection_rate: Option<Rate>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["num", "interval"]))]
pub struct Rate {
    /// Number of requests or connections in an interval.
    pub num: u32,
    /// Length of the interval. Above 50ms.
    pub interval: GoDuration,
}
