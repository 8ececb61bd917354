//! Spec of MeshMetric.

use kodiak_model::{Choice, GoDuration, TargetRef, words};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::open_telemetry::CollectorRef;

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct MeshMetric {
    /// The proxies that this policy selects. All proxies of the mesh when missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_ref: Option<TargetRef>,
    pub default: Conf,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Conf {
    /// Metrics of the proxy itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sidecar: Option<Sidecar>,
    /// Applications beside the proxy whose metrics it exposes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub applications: Option<Vec<Application>>,
    /// Backends that receive the metrics. Without backends no metrics are exposed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backends: Option<Vec<Backend>>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Sidecar {
    /// Selection of metrics. All by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub profiles: Option<Profiles>,
    /// Includes metrics that were never updated. False by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub include_unused: Option<bool>,
}

/// Union of all profiles, without the excluded metrics, plus the included ones.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Profiles {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub append_profiles: Option<Vec<Profile>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exclude: Option<Vec<Selector>>,
    /// Overrides `exclude`.
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

/// Selects metrics by name.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["type", "match"]))]
pub struct Selector {
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub selector_type: Option<Choice<SelectorType>>,
    /// Text that the name is matched against.
    #[serde(rename = "match")]
    pub text: String,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["port"]))]
pub struct Application {
    /// Identifies the application in the metrics.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(default = "metrics_path_of_application", skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Address of the application. The address of the proxy by default.
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

/// A metrics backend. The member named by `type` is required.
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
    /// Identifies the Prometheus instance, when several discover their targets here.
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
    /// Without TLS, with certificate files of the proxy, or with the certificates of the mesh.
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
    /// Host and port.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backend_ref: Option<CollectorRef>,
    /// Interval between pushes. 1m by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refresh_interval: Option<GoDuration>,
}

pub(super) const METRICS_PATH: &str = "/metrics";

#[expect(clippy::unnecessary_wraps, reason = "the default of an optional field")]
fn metrics_path_of_application() -> Option<String> {
    Some(METRICS_PATH.to_owned())
}
