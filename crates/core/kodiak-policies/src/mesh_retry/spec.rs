//! Spec of MeshRetry.

use std::collections::BTreeMap;

use kodiak_model::{Choice, GoDuration, TargetRef, words};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    from_to::Item,
    header::{self, HeaderMatch},
};

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct MeshRetry {
    /// The proxies that retry. All proxies of the mesh when missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_ref: Option<TargetRef>,
    /// The destinations of these proxies.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<Vec<Item<Conf>>>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Conf {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tcp: Option<Tcp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub http: Option<Http>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grpc: Option<Grpc>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Tcp {
    /// Maximum number of connection attempts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_connect_attempt: Option<u32>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Http {
    /// Number of retries. 1 by default; 0 disables retries.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub num_retries: Option<u32>,
    /// Timeout of each try. The timeout of the whole request by default; 0s disables it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub per_try_timeout: Option<GoDuration>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub back_off: Option<BackOff>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate_limited_back_off: Option<RateLimitedBackOff>,
    /// Conditions for a retry: 5xx, GatewayError, Reset, Retriable4xx, ConnectFailure, EnvoyRatelimited, RefusedStream,
    /// Http3PostConnectFailure, a status code such as "503", or HttpMethodGet (and so on) to retry only requests with
    /// one of these methods.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_on: Option<Vec<String>>,
    /// Retries when the response has one of these headers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retriable_response_headers: Option<Vec<HeaderMatch>>,
    /// Retries only requests with one of these headers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retriable_request_headers: Option<Vec<HeaderMatch>>,
    /// Endpoints to avoid in retries.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host_selection: Option<Vec<Predicate>>,
    /// Number of attempts to find another endpoint before the last one found is used. 1 by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host_selection_max_attempts: Option<i64>,
}

words! {
    pub enum GrpcRetryOn {
        Canceled = "Canceled",
        DeadlineExceeded = "DeadlineExceeded",
        Internal = "Internal",
        ResourceExhausted = "ResourceExhausted",
        Unavailable = "Unavailable",
    }
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Grpc {
    /// Number of retries. 1 by default; 0 disables retries.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub num_retries: Option<u32>,
    /// Timeout of each try. The timeout of the whole request by default; 0s disables it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub per_try_timeout: Option<GoDuration>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub back_off: Option<BackOff>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate_limited_back_off: Option<RateLimitedBackOff>,
    /// Retries when the response has one of these gRPC statuses.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_on: Option<Vec<Choice<GrpcRetryOn>>>,
}

/// Exponential back-off between tries.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct BackOff {
    /// 25ms by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base_interval: Option<GoDuration>,
    /// 10 times the base interval by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_interval: Option<GoDuration>,
}

impl Default for BackOff {
    fn default() -> Self {
        Self { base_interval: Some(GoDuration::from_millis(25)), max_interval: None }
    }
}

/// Back-off by a header of the response.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct RateLimitedBackOff {
    /// Headers to read. The first that can be parsed is used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reset_headers: Option<Vec<ResetHeader>>,
    /// Maximum back-off. 5m by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_interval: Option<GoDuration>,
}

impl Default for RateLimitedBackOff {
    fn default() -> Self {
        Self { reset_headers: None, max_interval: Some(GoDuration::from_secs(300)) }
    }
}

words! {
    pub enum RateLimitFormat {
        Seconds = "Seconds",
        UnixTimestamp = "UnixTimestamp",
    }
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["name", "format"]))]
pub struct ResetHeader {
    /// Name of the header, in lower case.
    #[schemars(length(min = 1, max = 256), regex(pattern = header::NAME_PATTERN))]
    pub name: String,
    /// Whether the header holds a number of seconds, or a Unix timestamp.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub format: Option<Choice<RateLimitFormat>>,
}

words! {
    pub enum PredicateType {
        OmitPreviousHosts = "OmitPreviousHosts",
        OmitHostsWithTags = "OmitHostsWithTags",
        OmitPreviousPriorities = "OmitPreviousPriorities",
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["predicate"]))]
pub struct Predicate {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub predicate: Option<Choice<PredicateType>>,
    /// For OmitHostsWithTags: avoids endpoints with all of these tags.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tags: Option<BTreeMap<String, String>>,
    /// For OmitPreviousPriorities: number of tries after which priorities are recomputed. 2 by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub update_frequency: Option<i32>,
}

impl Default for Predicate {
    fn default() -> Self {
        Self { predicate: None, tags: None, update_frequency: Some(2) }
    }
}
