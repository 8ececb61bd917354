//! Spec of MeshTLS.

use kodiak_model::{
    Choice, TargetRef, Word,
    tls::{TlsVersion, TlsVersions},
    words,
};
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

impl MeshTLS {
    pub(super) fn confs(&self) -> impl Iterator<Item = &Conf> {
        let from = self.from.iter().flatten().map(|item| &item.default);
        from.chain(self.rules.iter().flatten().map(|rule| &rule.default))
    }
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

impl Conf {
    /// Whether TLS 1.2 has no cipher for the ECDSA keys of proxies, and no newer version is allowed to clients.
    pub(super) fn excludes_tls12(&self) -> bool {
        let ciphers = self.tls_ciphers.as_deref().unwrap_or_default();
        let is_rsa =
            |cipher: &Choice<TlsCipher>| cipher.known().is_some_and(|known| known.text().starts_with("ECDHE-RSA"));
        let bounds = self.tls_version.iter().flat_map(|versions| [&versions.min, &versions.max]).flatten();
        let is_newer = bounds.into_iter().any(|version| version.is(TlsVersion::Tls13));
        !ciphers.is_empty() && ciphers.iter().all(is_rsa) && !is_newer
    }
}
