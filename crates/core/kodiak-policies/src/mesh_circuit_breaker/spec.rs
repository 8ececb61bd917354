//! Spec of MeshCircuitBreaker.

use kodiak_model::{GoDuration, IntOrString, TargetRef};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::from_to::Item;

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct MeshCircuitBreaker {
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
    pub rules: Option<Vec<Rule>>,
}

/// Applies to all callers.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Rule {
    pub default: Conf,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Conf {
    /// Requests and connections above a limit fail at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connection_limits: Option<ConnectionLimits>,
    /// Ejects endpoints that fail more often than others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outlier_detection: Option<OutlierDetection>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ConnectionLimits {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_connections: Option<u32>,
    /// Maximum number of concurrent connection pools.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_connection_pools: Option<u32>,
    /// Maximum number of requests that wait for a connection. For TCP, of connections.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_pending_requests: Option<u32>,
    /// Maximum number of concurrent retries.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_retries: Option<u32>,
    /// Maximum number of concurrent requests. Only for HTTP.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_requests: Option<u32>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct OutlierDetection {
    /// Disables this section.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disabled: Option<bool>,
    /// Interval between evaluations of the endpoints.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interval: Option<GoDuration>,
    /// Ejection time, multiplied by the number of times the endpoint was ejected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base_ejection_time: Option<GoDuration>,
    /// Maximum percentage of endpoints that are ejected at the same time. 10 by default, but at least one endpoint.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_ejection_percent: Option<u32>,
    /// Counts failures to connect separately from error responses.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub split_external_and_local_errors: Option<bool>,
    /// Conditions that eject an endpoint.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detectors: Option<Detectors>,
    /// Below this percentage of healthy endpoints, Envoy balances over all endpoints: a number, or a decimal in quotes.
    /// 50 by default; 0 disables it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub healthy_panic_threshold: Option<IntOrString>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Detectors {
    /// Consecutive errors of any kind.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total_failures: Option<ConsecutiveFailures>,
    /// Consecutive responses 502, 503 or 504.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gateway_failures: Option<ConsecutiveFailures>,
    /// Consecutive failures to connect. Only with `splitExternalAndLocalErrors`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub local_origin_failures: Option<ConsecutiveFailures>,
    /// Success rate far below the mean of all endpoints.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub success_rate: Option<SuccessRate>,
    /// Failure percentage above a fixed threshold.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure_percentage: Option<FailurePercentage>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ConsecutiveFailures {
    /// Number of consecutive errors.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub consecutive: Option<u32>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct SuccessRate {
    /// Minimum number of endpoints with enough requests; below it the detector does nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub minimum_hosts: Option<u32>,
    /// Minimum number of requests of an endpoint in an interval.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_volume: Option<u32>,
    /// Number of standard deviations below the mean at which an endpoint is ejected: a number, or a decimal in quotes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub standard_deviation_factor: Option<IntOrString>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct FailurePercentage {
    /// Minimum number of endpoints with enough requests; below it the detector does nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub minimum_hosts: Option<u32>,
    /// Minimum number of requests of an endpoint in an interval.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_volume: Option<u32>,
    /// Failure percentage at which an endpoint is ejected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub threshold: Option<u32>,
}
