//! What users write.

use kodiak_model::{GoDuration, IntOrString, TargetRef};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::from_to::Item;

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct MeshCircuitBreaker {
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
    pub rules: Option<Vec<Rule>>,
}

/// For all callers alike.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Rule {
    pub default: Conf,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Conf {
    /// What is above a limit is refused at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connection_limits: Option<ConnectionLimits>,
    /// Endpoints that fail more than others are left alone for a while.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outlier_detection: Option<OutlierDetection>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ConnectionLimits {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_connections: Option<u32>,
    /// Pools of connections that are open at the same time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_connection_pools: Option<u32>,
    /// Requests that wait for a connection. Without HTTP, connections.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_pending_requests: Option<u32>,
    /// Retries under way at the same time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_retries: Option<u32>,
    /// Requests under way at the same time. Only for HTTP.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_requests: Option<u32>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct OutlierDetection {
    /// Nothing in this section has an effect.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disabled: Option<bool>,
    /// How often endpoints are looked at.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interval: Option<GoDuration>,
    /// How long an endpoint is left alone, times how often it was already.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base_ejection_time: Option<GoDuration>,
    /// How many endpoints may be left alone at the same time, in percent. 10 by default, but at least one endpoint.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_ejection_percent: Option<u32>,
    /// Counts failures to reach the endpoint apart from those that it answers with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub split_external_and_local_errors: Option<bool>,
    /// What counts as failing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detectors: Option<Detectors>,
    /// When fewer endpoints than this are well, in percent, calls go to all of them: a number, or a decimal in quotes.
    /// 50 by default; 0 means never.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub healthy_panic_threshold: Option<IntOrString>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Detectors {
    /// Errors of any sort in a row.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total_failures: Option<ConsecutiveFailures>,
    /// Answers 502, 503 or 504 in a row.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gateway_failures: Option<ConsecutiveFailures>,
    /// Failures in a row to reach the endpoint. Only with `splitExternalAndLocalErrors`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub local_origin_failures: Option<ConsecutiveFailures>,
    /// Fewer successes than the other endpoints have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub success_rate: Option<SuccessRate>,
    /// More failures than a fixed share of the requests.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure_percentage: Option<FailurePercentage>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ConsecutiveFailures {
    /// How many in a row.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub consecutive: Option<u32>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct SuccessRate {
    /// How many endpoints must have enough requests, or nothing is compared.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub minimum_hosts: Option<u32>,
    /// How many requests in an interval are enough.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_volume: Option<u32>,
    /// How many standard deviations below the mean is too few: a number, or a decimal in quotes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub standard_deviation_factor: Option<IntOrString>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct FailurePercentage {
    /// How many endpoints must have enough requests, or nothing is looked at.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub minimum_hosts: Option<u32>,
    /// How many requests in an interval are enough.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_volume: Option<u32>,
    /// The share of failures, in percent, from which on an endpoint is left alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub threshold: Option<u32>,
}
