//! What users write.

use kodiak_model::{Choice, TargetRef, tls::TlsVersions, words};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::from_to::Item;

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct MeshTLS {
    /// The proxies this policy is for. All of the mesh when missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_ref: Option<TargetRef>,
    /// For calls that these proxies receive. The older form of `rules`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<Vec<Item<Conf>>>,
    /// For calls that these proxies receive.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rules: Option<Vec<Rule>>,
}

/// For all callers alike.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Rule {
    pub default: Conf,
}

words! {
    pub enum Mode {
        Strict = "Strict",
        Permissive = "Permissive",
    }
}

words! {
    pub enum TlsCipher {
        EcdheEcdsaAes128GcmSha256 = "ECDHE-ECDSA-AES128-GCM-SHA256",
        EcdheEcdsaAes256GcmSha384 = "ECDHE-ECDSA-AES256-GCM-SHA384",
        EcdheEcdsaChacha20Poly1305 = "ECDHE-ECDSA-CHACHA20-POLY1305",
        EcdheRsaAes128GcmSha256 = "ECDHE-RSA-AES128-GCM-SHA256",
        EcdheRsaAes256GcmSha384 = "ECDHE-RSA-AES256-GCM-SHA384",
        EcdheRsaChacha20Poly1305 = "ECDHE-RSA-CHACHA20-POLY1305",
    }
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Conf {
    /// Only for the whole mesh: the versions that are spoken.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls_version: Option<TlsVersions>,
    /// Only for the whole mesh: the ciphers that are spoken. Envoy's choice by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls_ciphers: Option<Vec<Choice<TlsCipher>>>,
    /// Strict takes TLS of the mesh alone, Permissive also takes calls without it. Strict by default.
    // The schema has the words in another order than the check.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["Permissive", "Strict"]))]
    pub mode: Option<Choice<Mode>>,
}
