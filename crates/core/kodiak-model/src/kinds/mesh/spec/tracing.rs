//! Trace backends: the legacy form of MeshTrace.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::BackendConf;
use crate::proto_json::is_default;

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Tracing {
    #[serde(skip_serializing_if = "is_default")]
    pub default_backend: String,
    #[serde(skip_serializing_if = "is_default")]
    pub backends: Vec<TracingBackend>,
}

impl Tracing {
    /// The backend of this name, or the default one.
    pub fn backend(&self, name: Option<&str>) -> Option<&TracingBackend> {
        let name = name.unwrap_or(&self.default_backend);
        self.backends.iter().find(|backend| backend.name == name)
    }
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct TracingBackend {
    #[serde(skip_serializing_if = "is_default")]
    pub name: String,
    /// Percentage of requests that are traced. 100 by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sampling: Option<f64>,
    /// `zipkin` or `datadog`.
    #[serde(rename = "type", skip_serializing_if = "is_default")]
    pub backend_type: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conf: Option<BackendConf>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct DatadogTracing {
    #[serde(skip_serializing_if = "is_default")]
    pub address: String,
    #[serde(skip_serializing_if = "is_default")]
    pub port: u32,
    /// Reports inbound traffic, outbound traffic and each destination as separate services.
    #[serde(skip_serializing_if = "is_default")]
    pub split_service: bool,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ZipkinTracing {
    #[serde(skip_serializing_if = "is_default")]
    pub url: String,
    #[serde(rename = "traceId128bit", skip_serializing_if = "is_default")]
    pub trace_id_128_bit: bool,
    /// httpJson (the default), httpJsonV1 or httpProto.
    #[serde(skip_serializing_if = "is_default")]
    pub api_version: String,
    /// Client and server share a span. True by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shared_span_context: Option<bool>,
}
