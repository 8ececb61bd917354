//! The request body of `POST /bootstrap`.

use std::collections::BTreeMap;

use kodiak_ads::Credential;
use kodiak_model::subscription::Version;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// Mesh, name and token of the proxy: all that is read before the token is verified. The rest is skipped without being
/// stored.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct ProxyCredentials {
    #[serde(deserialize_with = "or_default")]
    pub(super) mesh: String,
    #[serde(deserialize_with = "or_default")]
    pub(super) name: String,
    #[serde(deserialize_with = "credential")]
    pub(super) dataplane_token: Credential,
}

/// Unknown keys are ignored: newer sidecar processes send more.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct BootstrapRequest {
    #[serde(deserialize_with = "or_default")]
    pub(super) mesh: String,
    #[serde(deserialize_with = "or_default")]
    pub(super) name: String,
    #[serde(deserialize_with = "or_default")]
    pub(super) proxy_type: String,
    #[serde(deserialize_with = "credential")]
    pub(super) dataplane_token: Credential,
    #[serde(deserialize_with = "or_default")]
    pub(super) dataplane_resource: String,
    pub(super) version: Option<Version>,
    #[serde(deserialize_with = "or_default")]
    pub(super) ca_cert: String,
    #[serde(deserialize_with = "or_default")]
    pub(super) dynamic_metadata: BTreeMap<String, String>,
    pub(super) otel_env: Option<Value>,
    pub(super) dns_port: Option<u16>,
    pub(super) readiness_port: Option<u16>,
    /// Means the opposite of its name: true turns the probe proxy on. Kuma released it like this.
    #[serde(rename = "appProbeProxyDisabled", deserialize_with = "or_default")]
    pub(super) app_probe_proxy_enabled: bool,
    #[serde(deserialize_with = "or_default")]
    pub(super) features: Vec<String>,
    #[serde(deserialize_with = "or_default")]
    pub(super) workdir: String,
    #[serde(deserialize_with = "or_default")]
    pub(super) metrics_resources: MetricsResources,
    #[serde(deserialize_with = "or_default")]
    pub(super) system_ca_path: String,
    pub(super) dataplane_config: Option<Value>,
    #[serde(rename = "ipv6Enabled", deserialize_with = "or_default")]
    pub(super) ipv6_enabled: bool,
    #[serde(deserialize_with = "or_default")]
    pub(super) spire_resources: SpireResources,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct MetricsResources {
    #[serde(deserialize_with = "or_default")]
    pub(super) cert_path: String,
    #[serde(deserialize_with = "or_default")]
    pub(super) key_path: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct SpireResources {
    #[serde(deserialize_with = "or_default")]
    pub(super) socket_path: String,
}

/// Go writes `null` for an empty value.
fn or_default<'de, T: Default + Deserialize<'de>, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
    Option::deserialize(deserializer).map(Option::unwrap_or_default)
}

fn credential<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Credential, D::Error> {
    let token: Option<String> = Option::deserialize(deserializer)?;
    Ok(Credential(token.filter(|token| !token.is_empty())))
}
