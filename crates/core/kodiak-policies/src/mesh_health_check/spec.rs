//! Spec of MeshHealthCheck.

use kodiak_model::{GoDuration, IntOrString, TargetRef};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{from_to::Item, header::HeaderAdditions};

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct MeshHealthCheck {
    /// The proxies that send health checks. All proxies of the mesh when missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_ref: Option<TargetRef>,
    /// The destinations whose endpoints are checked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<Vec<Item<Conf>>>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Conf {
    /// Interval between checks. 1m by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interval: Option<GoDuration>,
    /// Timeout of a check. 15s by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<GoDuration>,
    /// Number of consecutive failed checks that make an endpoint unhealthy. 5 by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unhealthy_threshold: Option<i32>,
    /// Number of consecutive successful checks that make an endpoint healthy. 1 by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub healthy_threshold: Option<i32>,
    /// Maximum random delay of the first check.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub initial_jitter: Option<GoDuration>,
    /// Maximum random delay that is added to the interval.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interval_jitter: Option<GoDuration>,
    /// Maximum random delay that is added to the interval, as a percentage of the interval.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interval_jitter_percent: Option<i32>,
    /// Below this percentage of healthy endpoints, Envoy balances over all endpoints: a number, or a decimal in quotes.
    /// 50 by default. Prefer the setting in MeshCircuitBreaker.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub healthy_panic_threshold: Option<IntOrString>,
    /// Below the panic threshold, requests fail instead of going to all endpoints.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fail_traffic_on_panic: Option<bool>,
    /// File that checks are logged to. None by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub event_log_path: Option<String>,
    /// Logs every failed check, not only the first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub always_log_health_check_failures: Option<bool>,
    /// Interval between checks while the destination receives no traffic. 60s by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub no_traffic_interval: Option<GoDuration>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tcp: Option<TcpHealthCheck>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub http: Option<HttpHealthCheck>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grpc: Option<GrpcHealthCheck>,
    /// Reuses the connection between checks. true by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reuse_connection: Option<bool>,
}

/// For TCP destinations: opens a connection, and optionally exchanges data.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct TcpHealthCheck {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disabled: Option<bool>,
    /// Data to send. None by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub send: Option<String>,
    /// Texts that the response must contain, in this order. By default an open connection is enough.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub receive: Option<Vec<String>>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct HttpHealthCheck {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disabled: Option<bool>,
    /// Path of the request. `/` by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_headers_to_add: Option<HeaderAdditions>,
    /// Response statuses of a healthy endpoint. 200 by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expected_statuses: Option<Vec<i32>>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct GrpcHealthCheck {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disabled: Option<bool>,
    /// Name of the service in the health check request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service_name: Option<String>,
    /// Value of the :authority header. The name of the cluster by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub authority: Option<String>,
}
