//! Encryption between proxies.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::BackendConf;
use crate::{
    Choice, ProtoDuration,
    data_source::DataSource,
    proto_json::{is_default, is_first, word_or_first},
    words,
};

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Mtls {
    /// The backend that issues certificates. mTLS is off when missing.
    #[serde(skip_serializing_if = "is_default")]
    pub enabled_backend: String,
    #[serde(skip_serializing_if = "is_default")]
    pub backends: Vec<MtlsBackend>,
    /// Takes the backends as they are, without looking at their certificates.
    #[serde(skip_serializing_if = "is_default")]
    pub skip_validation: bool,
}

impl Mtls {
    pub fn enabled_backend(&self) -> Option<&MtlsBackend> {
        let enabled = Some(&self.enabled_backend).filter(|name| !name.is_empty())?;
        self.backends.iter().find(|backend| backend.name == *enabled)
    }
}

words! {
    pub enum MtlsMode {
        /// Only mTLS connections are taken.
        Strict = "STRICT",
        /// Plain connections are taken too.
        Permissive = "PERMISSIVE",
    }
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct MtlsBackend {
    #[serde(skip_serializing_if = "is_default")]
    pub name: String,
    /// `builtin` makes a certificate authority, `provided` takes yours.
    #[serde(rename = "type", skip_serializing_if = "is_default")]
    pub backend_type: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dp_cert: Option<DpCert>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conf: Option<BackendConf>,
    #[serde(skip_serializing_if = "is_first")]
    pub mode: Option<Choice<MtlsMode>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub root_chain: Option<RootChain>,
}

impl MtlsBackend {
    pub fn mode(&self) -> MtlsMode {
        word_or_first(self.mode.as_ref())
    }
}

/// The certificates of proxies.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct DpCert {
    /// Needed whenever `dpCert` is there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rotation: Option<Rotation>,
    /// How long issuing a certificate may take.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_timeout: Option<ProtoDuration>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Rotation {
    /// How long a certificate lives: a number and one of y, w, d, h, m, s, ms.
    #[serde(skip_serializing_if = "is_default")]
    pub expiration: String,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct RootChain {
    /// How long reading the root certificates may take. 10s by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_timeout: Option<ProtoDuration>,
}

/// The settings of a `builtin` backend.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct BuiltinCa {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca_cert: Option<BuiltinCaCert>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct BuiltinCaCert {
    #[serde(rename = "RSAbits", skip_serializing_if = "Option::is_none")]
    pub rsa_bits: Option<u32>,
    /// How long the authority lives. 10 years by default.
    #[serde(skip_serializing_if = "is_default")]
    pub expiration: String,
}

/// The settings of a `provided` backend.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ProvidedCa {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cert: Option<DataSource>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<DataSource>,
}
