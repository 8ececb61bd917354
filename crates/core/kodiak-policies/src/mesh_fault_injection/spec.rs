//! What users write.

use kodiak_model::{GoDuration, IntOrString, TargetRef};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::from_to::{Item, Rule};

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct MeshFaultInjection {
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
    /// Faults of HTTP calls. An empty list takes back those of a broader policy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub http: Option<Vec<Fault>>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Fault {
    /// Answers with a status instead of passing the call on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub abort: Option<Abort>,
    /// Passes the call on later.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delay: Option<Delay>,
    /// Sends the answer slowly.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub response_bandwidth: Option<ResponseBandwidth>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["httpStatus", "percentage"]))]
pub struct Abort {
    pub http_status: i32,
    /// Of the calls: a whole number, or a decimal in a string.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub percentage: Option<IntOrString>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["value", "percentage"]))]
pub struct Delay {
    /// How much later.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<GoDuration>,
    /// Of the calls: a whole number, or a decimal in a string.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub percentage: Option<IntOrString>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["limit", "percentage"]))]
pub struct ResponseBandwidth {
    /// A number and a unit: kbps, Mbps or Gbps.
    pub limit: String,
    /// Of the calls: a whole number, or a decimal in a string.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub percentage: Option<IntOrString>,
}
