//! mTLS between proxies.

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
    /// The backend that issues certificates. mTLS is disabled when missing.
    #[serde(skip_serializing_if = "is_default")]
    pub enabled_backend: String,
    #[serde(skip_serializing_if = "is_default")]
    pub backends: Vec<MtlsBackend>,
    /// Skips validation of the backends' certificates.
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
        /// Accepts only mTLS connections.
        Strict = "STRICT",
        /// Accepts plaintext connections too.
        Permissive = "PERMISSIVE",
    }
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct MtlsBackend {
    #[serde(skip_serializing_if = "is_default")]
    pub name: String,
    /// `builtin` generates a CA, `provided` uses yours.
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

/// Settings of proxy certificates.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct DpCert {
    /// Required in `dpCert`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rotation: Option<Rotation>,
    /// Timeout for issuing a certificate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_timeout: Option<ProtoDuration>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Rotation {
    /// Validity of a certificate: a number and one of y, w, d, h, m, s, ms.
    #[serde(skip_serializing_if = "is_default")]
    pub expiration: String,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct RootChain {
    /// Timeout for reading the root certificates. 10s by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_timeout: Option<ProtoDuration>,
}

/// Settings of a `builtin` backend.
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
    /// Validity of the CA certificate. 10 years by default.
    #[serde(skip_serializing_if = "is_default")]
    pub expiration: String,
}

/// Settings of a `provided` backend.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ProvidedCa {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cert: Option<DataSource>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<DataSource>,
}
