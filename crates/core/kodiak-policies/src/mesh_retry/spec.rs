//! What users write.

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
    /// The proxies that try again. All of the mesh when missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_ref: Option<TargetRef>,
    /// The destinations that these proxies call.
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
    /// How often to try to connect before giving up.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_connect_attempt: Option<u32>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Http {
    /// How often to try again. 1 by default; 0 means never.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub num_retries: Option<u32>,
    /// How long one try may take. The timeout of the whole request by default; 0s means no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub per_try_timeout: Option<GoDuration>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub back_off: Option<BackOff>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate_limited_back_off: Option<RateLimitedBackOff>,
    /// When to try again: 5xx, GatewayError, Reset, Retriable4xx, ConnectFailure, EnvoyRatelimited, RefusedStream,
    /// Http3PostConnectFailure, a status code such as "503", or HttpMethodGet (and so on) to try again only what was
    /// sent with one of these methods.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_on: Option<Vec<String>>,
    /// Try again when the response has one of these headers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retriable_response_headers: Option<Vec<HeaderMatch>>,
    /// Try again only what was sent with one of these headers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retriable_request_headers: Option<Vec<HeaderMatch>>,
    /// Which endpoints to avoid when trying again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host_selection: Option<Vec<Predicate>>,
    /// How often to look for another endpoint before taking the last one found. 1 by default.
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
    /// How often to try again. 1 by default; 0 means never.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub num_retries: Option<u32>,
    /// How long one try may take. The timeout of the whole request by default; 0s means no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub per_try_timeout: Option<GoDuration>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub back_off: Option<BackOff>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate_limited_back_off: Option<RateLimitedBackOff>,
    /// Try again when the call ended with one of these statuses.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_on: Option<Vec<Choice<GrpcRetryOn>>>,
}

/// How long to wait between tries: longer each time.
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

/// How long to wait when the response says so in a header.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct RateLimitedBackOff {
    /// The headers to look at. The first that can be read counts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reset_headers: Option<Vec<ResetHeader>>,
    /// The longest wait. 5m by default.
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
    /// The name of the header, in lower case.
    #[schemars(length(min = 1, max = 256), regex(pattern = header::NAME_PATTERN))]
    pub name: String,
    /// Whether the header holds a number of seconds to wait, or the time to wait for.
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
    /// For OmitHostsWithTags: endpoints with all of these tags are avoided.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tags: Option<BTreeMap<String, String>>,
    /// For OmitPreviousPriorities: after how many tries priorities are looked at again. 2 by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub update_frequency: Option<i32>,
}

impl Default for Predicate {
    fn default() -> Self {
        Self { predicate: None, tags: None, update_frequency: Some(2) }
    }
}
