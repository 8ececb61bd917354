//! Spec of MeshFaultInjection.

use kodiak_model::{GoDuration, IntOrString, TargetRef};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::from_to::{Item, Rule};

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct MeshFaultInjection {
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
    /// Faults of HTTP requests. An empty list removes those of a broader policy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub http: Option<Vec<Fault>>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Fault {
    /// Responds with a status instead of forwarding the request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub abort: Option<Abort>,
    /// Delays the request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delay: Option<Delay>,
    /// Limits the bandwidth of the response.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub response_bandwidth: Option<ResponseBandwidth>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["httpStatus", "percentage"]))]
pub struct Abort {
    pub http_status: i32,
    /// Percentage of requests: a whole number, or a decimal in a string.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub percentage: Option<IntOrString>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["value", "percentage"]))]
pub struct Delay {
    /// Duration of the delay.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<GoDuration>,
    /// Percentage of requests: a whole number, or a decimal in a string.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub percentage: Option<IntOrString>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["limit", "percentage"]))]
pub struct ResponseBandwidth {
    /// A number and a unit: kbps, Mbps or Gbps.
    pub limit: String,
    /// Percentage of requests: a whole number, or a decimal in a string.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub percentage: Option<IntOrString>,
}
