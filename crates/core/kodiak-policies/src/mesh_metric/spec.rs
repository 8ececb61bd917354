//! What users write.

use kodiak_model::{Choice, GoDuration, TargetRef, words};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::open_telemetry::CollectorRef;

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct MeshMetric {
    /// The proxies this policy is for. All of the mesh when missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_ref: Option<TargetRef>,
    pub default: Conf,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Conf {
    /// The metrics of the proxy itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sidecar: Option<Sidecar>,
    /// The applications beside the proxy whose metrics it passes on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub applications: Option<Vec<Application>>,
    /// Who gets the metrics. Without backends nothing is published.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backends: Option<Vec<Backend>>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Sidecar {
    /// Which metrics. All by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub profiles: Option<Profiles>,
    /// Also those that never changed. False by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub include_unused: Option<bool>,
}

/// The metrics of all profiles together, without the excluded, with the included.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Profiles {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub append_profiles: Option<Vec<Profile>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exclude: Option<Vec<Selector>>,
    /// Wins over `exclude`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub include: Option<Vec<Selector>>,
}

words! {
    pub enum ProfileName {
        All = "All",
        Basic = "Basic",
        None = "None",
    }
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["name"]))]
pub struct Profile {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<Choice<ProfileName>>,
}

words! {
    pub enum SelectorType {
        Prefix = "Prefix",
        Regex = "Regex",
        Exact = "Exact",
        Contains = "Contains",
    }
}

/// Metrics by their names.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["type", "match"]))]
pub struct Selector {
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub selector_type: Option<Choice<SelectorType>>,
    /// What the name is compared with.
    #[serde(rename = "match")]
    pub text: String,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["port"]))]
pub struct Application {
    /// Tells applications apart in their metrics.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(default = "metrics_path_of_application", skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Where the application listens. The address of the proxy by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    pub port: u32,
}

words! {
    pub enum BackendType {
        Prometheus = "Prometheus",
        OpenTelemetry = "OpenTelemetry",
    }
}

/// Who gets the metrics. The member named by `type` must be there.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["type"]))]
pub struct Backend {
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub backend_type: Option<Choice<BackendType>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prometheus: Option<PrometheusBackend>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub open_telemetry: Option<OpenTelemetryBackend>,
}

/// A port of the proxy that Prometheus scrapes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PrometheusBackend {
    /// Which Prometheus, when several discover their targets here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_id: Option<String>,
    pub port: u32,
    pub path: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls: Option<PrometheusTls>,
}

impl Default for PrometheusBackend {
    fn default() -> Self {
        Self { client_id: None, port: 5670, path: METRICS_PATH.to_owned(), tls: None }
    }
}

words! {
    pub enum TlsMode {
        Disabled = "Disabled",
        ProvidedTLS = "ProvidedTLS",
        ActiveMTLSBackend = "ActiveMTLSBackend",
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PrometheusTls {
    /// Without TLS, with files given to the proxy, or with the certificates of the mesh.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<Choice<TlsMode>>,
}

impl Default for PrometheusTls {
    fn default() -> Self {
        Self { mode: Some(TlsMode::Disabled.into()) }
    }
}

/// A collector that metrics are pushed to: either an endpoint or a reference.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct OpenTelemetryBackend {
    /// A host and a port.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backend_ref: Option<CollectorRef>,
    /// How often metrics are pushed. 1m by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refresh_interval: Option<GoDuration>,
}

const METRICS_PATH: &str = "/metrics";

#[expect(clippy::unnecessary_wraps, reason = "the default of an optional field")]
fn metrics_path_of_application() -> Option<String> {
    Some(METRICS_PATH.to_owned())
}
