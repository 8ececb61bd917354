//! Metrics backends: the legacy form of MeshMetric.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::BackendConf;
use crate::{
    Choice,
    proto_json::{is_default, is_first, word_or_first},
    tags, words,
};

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Metrics {
    /// Metrics are not exposed when missing.
    #[serde(skip_serializing_if = "is_default")]
    pub enabled_backend: String,
    #[serde(skip_serializing_if = "is_default")]
    pub backends: Vec<MetricsBackend>,
}

impl Metrics {
    pub fn enabled_backend(&self) -> Option<&MetricsBackend> {
        let enabled = Some(&self.enabled_backend).filter(|name| !name.is_empty())?;
        self.backends.iter().find(|backend| backend.name == *enabled)
    }
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct MetricsBackend {
    #[serde(skip_serializing_if = "is_default")]
    pub name: String,
    /// `prometheus`
    #[serde(rename = "type", skip_serializing_if = "is_default")]
    pub backend_type: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conf: Option<BackendConf>,
}

impl MetricsBackend {
    pub const PROMETHEUS: &'static str = "prometheus";
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Prometheus {
    /// 5670 by default.
    #[serde(skip_serializing_if = "is_default")]
    pub port: u32,
    /// `/metrics` by default.
    #[serde(skip_serializing_if = "is_default")]
    pub path: String,
    /// Tags of this proxy in Prometheus. `kuma.io/service: dataplane-metrics` by default.
    #[serde(skip_serializing_if = "is_default")]
    pub tags: BTreeMap<String, String>,
    /// The legacy form of `tls.mode: disabled`.
    #[serde(rename = "skipMTLS", skip_serializing_if = "Option::is_none")]
    pub skip_mtls: Option<bool>,
    /// Metrics endpoints of the application, served together with Envoy's metrics.
    #[serde(skip_serializing_if = "is_default")]
    pub aggregate: Vec<Aggregate>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub envoy: Option<EnvoyMetrics>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls: Option<PrometheusTls>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Aggregate {
    #[serde(skip_serializing_if = "is_default")]
    pub name: String,
    #[serde(skip_serializing_if = "is_default")]
    pub port: u32,
    #[serde(skip_serializing_if = "is_default")]
    pub path: String,
    /// True by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    #[serde(skip_serializing_if = "is_default")]
    pub address: String,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct EnvoyMetrics {
    /// Only metrics whose names match.
    #[serde(skip_serializing_if = "is_default")]
    pub filter_regex: String,
    /// Only metrics that changed at least once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub used_only: Option<bool>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PrometheusTls {
    #[serde(skip_serializing_if = "is_first")]
    pub mode: Option<Choice<PrometheusTlsMode>>,
}

words! {
    pub enum PrometheusTlsMode {
        /// Uses the certificates of the mesh.
        ActiveMtlsBackend = "activeMTLSBackend",
        /// Uses certificates that the proxy was started with.
        ProvidedTls = "providedTLS",
        Disabled = "disabled",
    }
}

impl PrometheusTls {
    pub fn mode(&self) -> PrometheusTlsMode {
        word_or_first(self.mode.as_ref())
    }
}

impl Prometheus {
    /// Whether `skipMTLS` and `tls` contradict each other.
    pub fn contradicts_itself(&self) -> bool {
        match (self.skip_mtls, &self.tls) {
            (Some(true), Some(tls)) => tls.mode() != PrometheusTlsMode::Disabled,
            (Some(false), Some(tls)) => tls.mode() != PrometheusTlsMode::ActiveMtlsBackend,
            _ => false,
        }
    }

    /// Writes defaults into the stored object, so that a change of defaults never changes an existing mesh.
    pub fn fill_defaults(&mut self) {
        let skip_mtls = self.skip_mtls == Some(true);
        self.tls.get_or_insert_with(|| PrometheusTls { mode: skip_mtls.then_some(PrometheusTlsMode::Disabled.into()) });
        if self.port == 0 {
            self.port = 5670;
        }
        if self.path.is_empty() {
            "/metrics".clone_into(&mut self.path);
        }
        if self.tags.is_empty() {
            self.tags.insert(tags::SERVICE.to_owned(), "dataplane-metrics".to_owned());
        }
    }
}
