//! Spec of MeshAccessLog.

use kodiak_model::{Choice, TargetRef, words};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    from_to::{Item, Rule},
    open_telemetry::CollectorRef,
};

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct MeshAccessLog {
    /// The proxies that this policy selects. All proxies of the mesh when missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_ref: Option<TargetRef>,
    /// For outbound traffic of these proxies.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<Vec<Item<Conf>>>,
    /// For inbound traffic of these proxies. The legacy form of `rules`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<Vec<Item<Conf>>>,
    /// For inbound traffic of these proxies. Each rule logs separately.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rules: Option<Vec<Rule<Conf>>>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Conf {
    /// Backends that receive the logs. An empty list disables logging.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backends: Option<Vec<Backend>>,
}

words! {
    pub enum BackendType {
        Tcp = "Tcp",
        File = "File",
        OpenTelemetry = "OpenTelemetry",
    }
}

/// One log backend. The member named by `type` is required.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["type"]))]
pub struct Backend {
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub backend_type: Option<Choice<BackendType>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tcp: Option<TcpBackend>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<FileBackend>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub open_telemetry: Option<OpenTelemetryBackend>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["address"]))]
pub struct TcpBackend {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub format: Option<Format>,
    /// Host and port, such as 127.0.0.1:5000.
    #[schemars(length(min = 1))]
    pub address: String,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["path"]))]
pub struct FileBackend {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub format: Option<Format>,
    /// File on the proxy's host, such as /dev/stdout.
    #[schemars(length(min = 1))]
    pub path: String,
}

/// A collector: either an endpoint or a reference.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct OpenTelemetryBackend {
    /// Log attributes. Values may contain command operators.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attributes: Option<Vec<Attribute>>,
    /// Body of each record: a string or an OTLP value, with command operators.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body: Option<Value>,
    /// Host and port. The port is 4317 by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backend_ref: Option<CollectorRef>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["key", "value"]))]
pub struct Attribute {
    /// Lower case words, digits, dots and underscores. No command operators.
    pub key: String,
    pub value: String,
}

words! {
    pub enum FormatType {
        Plain = "Plain",
        Json = "Json",
    }
}

/// Format of a log line. It may contain Envoy's command operators and Kuma's, such as %KUMA_MESH%.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["type"]))]
pub struct Format {
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub format_type: Option<Choice<FormatType>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plain: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub json: Option<Vec<JsonField>>,
    /// Omits values that are empty instead of writing a dash.
    pub omit_empty_values: bool,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["key", "value"]))]
pub struct JsonField {
    pub key: String,
    pub value: String,
}
