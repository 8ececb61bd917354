//! Spec of MeshTrace.

use kodiak_model::{Choice, IntOrString, TargetRef, words};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::open_telemetry::CollectorRef;

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct MeshTrace {
    /// The proxies that this policy selects. All proxies of the mesh when missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_ref: Option<TargetRef>,
    pub default: Conf,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Conf {
    /// Backend that receives spans. At most one; an empty list disables tracing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backends: Option<Vec<Backend>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sampling: Option<Sampling>,
    /// Tags that are added to every span.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tags: Option<Vec<Tag>>,
}

words! {
    pub enum BackendType {
        Zipkin = "Zipkin",
        Datadog = "Datadog",
        OpenTelemetry = "OpenTelemetry",
    }
}

/// A trace backend. The member named by `type` is required.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["type"]))]
pub struct Backend {
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub backend_type: Option<Choice<BackendType>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zipkin: Option<ZipkinBackend>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub datadog: Option<DatadogBackend>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub open_telemetry: Option<OpenTelemetryBackend>,
}

words! {
    pub enum ZipkinApiVersion {
        HttpJson = "httpJson",
        HttpProto = "httpProto",
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["url"]))]
pub struct ZipkinBackend {
    pub url: String,
    /// 128-bit trace IDs instead of 64-bit ones.
    #[serde(rename = "traceId128bit")]
    pub trace_id_128_bit: bool,
    pub api_version: Choice<ZipkinApiVersion>,
    /// Client and server share a span.
    pub shared_span_context: bool,
}

impl Default for ZipkinBackend {
    fn default() -> Self {
        Self {
            url: String::new(),
            trace_id_128_bit: false,
            api_version: ZipkinApiVersion::HttpJson.into(),
            shared_span_context: true,
        }
    }
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["url"]))]
pub struct DatadogBackend {
    /// URL of the agent: http://host:port without a path.
    pub url: String,
    /// Splits the service name by direction and destination.
    pub split_service: bool,
}

/// A collector: either an endpoint or a reference.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct OpenTelemetryBackend {
    /// Host and port. The port is 4317 by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backend_ref: Option<CollectorRef>,
}

/// Percentages: whole numbers, or decimals in strings. All are 100 by default.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Sampling {
    /// Upper limit of all traced requests.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub overall: Option<IntOrString>,
    /// Requests whose client asks for a trace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client: Option<IntOrString>,
    /// All other requests.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub random: Option<IntOrString>,
}

/// A name and a value: either a literal or from a header.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["name"]))]
pub struct Tag {
    pub name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub literal: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub header: Option<HeaderTag>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["name"]))]
pub struct HeaderTag {
    pub name: String,
    /// For requests without the header. Without a default they get no tag.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default: Option<String>,
}
