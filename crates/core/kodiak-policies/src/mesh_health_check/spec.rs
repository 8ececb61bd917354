//! What users write.

use kodiak_model::{GoDuration, IntOrString, TargetRef};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{from_to::Item, header::HeaderAdditions};

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct MeshHealthCheck {
    /// The proxies that ask. All of the mesh when missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_ref: Option<TargetRef>,
    /// The destinations whose endpoints are asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<Vec<Item<Conf>>>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Conf {
    /// How long to wait between two checks. 1m by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interval: Option<GoDuration>,
    /// How long to wait for an answer. 15s by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<GoDuration>,
    /// How many checks in a row must fail before an endpoint counts as unhealthy. 5 by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unhealthy_threshold: Option<i32>,
    /// How many checks in a row must succeed before an endpoint counts as healthy. 1 by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub healthy_threshold: Option<i32>,
    /// The first check waits for a random time up to this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub initial_jitter: Option<GoDuration>,
    /// Every check waits for a random time up to this, beside the interval.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interval_jitter: Option<GoDuration>,
    /// Every check waits for a random time up to this share of the interval, in percent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interval_jitter_percent: Option<i32>,
    /// When fewer endpoints than this are healthy, in percent, calls go to all of them: a number, or a decimal in quotes.
    /// 50 by default. Rather set it in a MeshCircuitBreaker.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub healthy_panic_threshold: Option<IntOrString>,
    /// With too few healthy endpoints, calls fail instead of going to all of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fail_traffic_on_panic: Option<bool>,
    /// The file to which checks are logged. None by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub event_log_path: Option<String>,
    /// Every failed check is logged, not only the first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub always_log_health_check_failures: Option<bool>,
    /// How long to wait between two checks while nobody calls the destination. 60s by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub no_traffic_interval: Option<GoDuration>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tcp: Option<TcpHealthCheck>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub http: Option<HttpHealthCheck>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grpc: Option<GrpcHealthCheck>,
    /// Checks share one connection. true by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reuse_connection: Option<bool>,
}

/// For destinations without HTTP: a connection, and what is said on it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct TcpHealthCheck {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disabled: Option<bool>,
    /// What to send. Nothing by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub send: Option<String>,
    /// What the answer must contain, in this order. By default it is enough that the connection stands.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub receive: Option<Vec<String>>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct HttpHealthCheck {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disabled: Option<bool>,
    /// The path to ask for. `/` by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_headers_to_add: Option<HeaderAdditions>,
    /// The statuses of a healthy endpoint. 200 by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expected_statuses: Option<Vec<i32>>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct GrpcHealthCheck {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disabled: Option<bool>,
    /// The name of the service to ask about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service_name: Option<String>,
    /// The value of the :authority header. The name of the cluster by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub authority: Option<String>,
}
