//! Spec of a DataplaneInsight, written by the control plane.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{proto_json::is_default, subscription::Subscription};

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct DataplaneInsight {
    /// Connections to control planes, the latest last.
    #[serde(skip_serializing_if = "is_default")]
    pub subscriptions: Vec<Subscription>,
    #[serde(rename = "mTLS", skip_serializing_if = "Option::is_none")]
    pub mtls: Option<MtlsInsight>,
    /// Metadata that the proxy sent when it connected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub open_telemetry: Option<OpenTelemetry>,
}

/// The certificate of the proxy. Times are RFC 3339.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct MtlsInsight {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub certificate_expiration_time: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_certificate_regeneration: Option<String>,
    #[serde(skip_serializing_if = "is_default")]
    pub certificate_regenerations: u32,
    /// Mesh backend, or KRI of the MeshIdentity, that issued the certificate.
    #[serde(skip_serializing_if = "is_default")]
    pub issued_backend: String,
    /// Backends whose certificates the proxy trusts.
    #[serde(skip_serializing_if = "is_default")]
    pub supported_backends: Vec<String>,
    /// SPIFFE ID of the certificate.
    #[serde(rename = "spiffeID", skip_serializing_if = "is_default")]
    pub spiffe_id: String,
    /// Serial number of the certificate, in hex.
    #[serde(skip_serializing_if = "is_default")]
    pub serial_number: String,
    /// When the control plane issues the next certificate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_rotation: Option<String>,
    /// Why the next certificate could not be issued; this one stays in use until it expires.
    #[serde(skip_serializing_if = "is_default")]
    pub renewal_error: String,
    /// The rollout step that the proxy last acknowledged in full. Only the control plane reads it.
    #[serde(skip_serializing_if = "is_default")]
    pub acknowledged: String,
    /// The permissions and certificates that the proxy last acknowledged. Only the control plane reads it.
    #[serde(skip_serializing_if = "is_default")]
    pub acknowledged_permissions: String,
    /// Why the proxy has not acknowledged the current step: the type that Envoy rejected, and its error.
    #[serde(skip_serializing_if = "is_default")]
    pub rejecting: String,
}

/// State of the telemetry settings on the proxy.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct OpenTelemetry {
    #[serde(skip_serializing_if = "is_default")]
    pub backends: Vec<OpenTelemetryBackend>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct OpenTelemetryBackend {
    #[serde(skip_serializing_if = "is_default")]
    pub name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub traces: Option<OpenTelemetrySignal>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub logs: Option<OpenTelemetrySignal>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metrics: Option<OpenTelemetrySignal>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct OpenTelemetrySignal {
    #[serde(skip_serializing_if = "is_default")]
    pub enabled: bool,
    #[serde(skip_serializing_if = "is_default")]
    pub env_allowed: bool,
    #[serde(skip_serializing_if = "is_default")]
    pub env_input_present: bool,
    #[serde(skip_serializing_if = "is_default")]
    pub state: String,
    #[serde(skip_serializing_if = "is_default")]
    pub override_kinds: Vec<String>,
    #[serde(skip_serializing_if = "is_default")]
    pub missing_fields: Vec<String>,
    #[serde(skip_serializing_if = "is_default")]
    pub blocked_reasons: Vec<String>,
}
