//! What users write.

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
    /// The proxies this policy is for. All of the mesh when missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_ref: Option<TargetRef>,
    /// For calls that gateways pass on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<Vec<Item<Conf>>>,
    /// For calls that sidecars receive. The older form of `rules`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<Vec<Item<Conf>>>,
    /// For calls that sidecars receive.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rules: Option<Vec<Rule<Conf>>>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Conf {
    /// Counted by each proxy for itself.
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
    /// Takes back a limit of a broader policy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disabled: Option<bool>,
    /// How many requests.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_rate: Option<Rate>,
    /// What is answered beyond the limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_rate_limit: Option<OnRateLimit>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct OnRateLimit {
    /// The status of the answer. 429 by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<u32>,
    /// The headers of the answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub headers: Option<HeaderAdditions>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct LocalTcp {
    /// Takes back a limit of a broader policy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disabled: Option<bool>,
    /// How many connections.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connection_rate: Option<Rate>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["num", "interval"]))]
pub struct Rate {
    /// How many of them.
    pub num: u32,
    /// In which time. Above 50ms.
    pub interval: GoDuration,
}
