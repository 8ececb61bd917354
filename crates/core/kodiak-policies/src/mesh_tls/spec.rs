//! Spec of MeshTLS.

use kodiak_model::{Choice, TargetRef, tls::TlsVersions, words};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::from_to::Item;

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct MeshTLS {
    /// The proxies that this policy selects. All proxies of the mesh when missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_ref: Option<TargetRef>,
    /// For inbound traffic of these proxies. The legacy form of `rules`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<Vec<Item<Conf>>>,
    /// For inbound traffic of these proxies.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rules: Option<Vec<Rule>>,
}

/// Applies to all callers.
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
    /// Only for the whole mesh: allowed TLS versions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls_version: Option<TlsVersions>,
    /// Only for the whole mesh: allowed ciphers. Envoy's defaults when missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls_ciphers: Option<Vec<Choice<TlsCipher>>>,
    /// Strict accepts only mTLS, Permissive also accepts plaintext. Strict by default.
    // The schema lists the values in another order than the error text.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["Permissive", "Strict"]))]
    pub mode: Option<Choice<Mode>>,
}
