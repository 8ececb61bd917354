//! Spec of a MeshOpenTelemetryBackend.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Choice, words};

/// An empty spec is valid: the collector on the host of the proxy.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct MeshOpenTelemetryBackend {
    /// Address of the collector. Port 4317 of the host of the proxy by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<Endpoint>,
    /// Transport of OTLP. `grpc` by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub protocol: Option<Choice<Protocol>>,
    /// Use of the standard `OTEL_EXPORTER_OTLP_*` environment variables of the proxy. Without effect.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub env: Option<Env>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Endpoint {
    /// An IP address or a hostname. `127.0.0.1` by default: `HOST_IP` of the proxy's environment is not read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// 4317 by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<i64>,
    /// Prefix of the paths `/v1/traces`, `/v1/metrics` and `/v1/logs`. Only with the protocol `http`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
}

words! {
    pub enum Protocol {
        Grpc = "grpc",
        Http = "http",
    }
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Env {
    /// Whether the variables are ignored, used, or required. `Optional` by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<Choice<EnvMode>>,
    /// Whether the variables or the fields of this resource win where both are set. `EnvFirst` by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub precedence: Option<Choice<EnvPrecedence>>,
    /// Whether variables of one signal, such as `OTEL_EXPORTER_OTLP_TRACES_ENDPOINT`, may differ from the shared ones.
    /// `true` by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allow_signal_overrides: Option<bool>,
}

words! {
    pub enum EnvMode {
        Disabled = "Disabled",
        Optional = "Optional",
        Required = "Required",
    }
}

words! {
    pub enum EnvPrecedence {
        ExplicitFirst = "ExplicitFirst",
        EnvFirst = "EnvFirst",
    }
}
