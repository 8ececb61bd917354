//! Spec of a MeshIdentity.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{Choice, GoDuration, LabelSelector, data_source::SecureDataSource, words};

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct MeshIdentity {
    /// The proxies that get this identity. None when missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selector: Option<Selector>,
    /// Templates of the SPIFFE ID.
    #[serde(rename = "spiffeID", skip_serializing_if = "Option::is_none")]
    pub spiffe_id: Option<SpiffeId>,
    /// Issuer of the certificates. Without a provider none are issued: clients only accept the identity.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider: Option<Provider>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Selector {
    /// Proxies with these labels. `matchLabels: {}` selects all proxies of the mesh.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dataplane: Option<LabelSelector>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct SpiffeId {
    /// A template with `.Mesh`, `.Zone` and `label`. `{{ .Mesh }}.{{ .Zone }}.mesh.local` by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trust_domain: Option<String>,
    /// A template with `.TrustDomain`, `.Workload`, `.Namespace`, `.ServiceAccount` and `label`.
    /// `/workload/{{ .Workload }}` by default, and on Kubernetes `/ns/{{ .Namespace }}/sa/{{ .ServiceAccount }}`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
}

words! {
    pub enum ProviderType {
        Bundled = "Bundled",
        Spire = "Spire",
        Extension = "Extension",
    }
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["type"]))]
pub struct Provider {
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub provider_type: Option<Choice<ProviderType>>,
    /// The control plane issues the certificates.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bundled: Option<Bundled>,
    /// A SPIRE agent beside the proxy issues the certificates.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spire: Option<Spire>,
    /// For builds with other providers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub extension: Option<Extension>,
}

words! {
    pub enum MeshTrustCreation {
        Enabled = "Enabled",
        Disabled = "Disabled",
    }
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Bundled {
    /// Whether a MeshTrust of the same name is created, so that other proxies trust these certificates. `Enabled` by
    /// default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mesh_trust_creation: Option<Choice<MeshTrustCreation>>,
    /// Accept a self-signed CA certificate, such as one of `autogenerate`. `false` by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub insecure_allow_self_signed: Option<bool>,
    /// Generate the CA.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub autogenerate: Option<Autogenerate>,
    /// Your CA. Required unless `autogenerate` is enabled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca: Option<Ca>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub certificate_parameters: Option<CertificateParameters>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Autogenerate {
    /// `false` by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Ca {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub certificate: Option<SecureDataSource>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub private_key: Option<SecureDataSource>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct CertificateParameters {
    /// Validity of a proxy's certificate. 24h by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expiry: Option<GoDuration>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Spire {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<SpireAgent>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct SpireAgent {
    /// Timeout for connecting to the agent. 1s by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<GoDuration>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["name"]))]
pub struct Extension {
    pub name: String,
    /// Only the extension reads it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub config: Option<Value>,
}
