//! TLS version range.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Choice, FieldPath, Problems, words};

words! {
    /// In ascending order, after the value that leaves the choice to Envoy.
    pub enum TlsVersion {
        Auto = "TLSAuto",
        Tls10 = "TLS10",
        Tls11 = "TLS11",
        Tls12 = "TLS12",
        Tls13 = "TLS13",
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct TlsVersions {
    /// Minimum TLS version. `TLSAuto` by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min: Option<Choice<TlsVersion>>,
    /// Maximum TLS version. `TLSAuto` by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max: Option<Choice<TlsVersion>>,
}

impl Default for TlsVersions {
    fn default() -> Self {
        let auto = Some(TlsVersion::Auto.into());
        Self { min: auto.clone(), max: auto }
    }
}

impl TlsVersions {
    pub fn check(&self, at: &FieldPath<'_>, problems: &mut Problems) {
        let mut exact = |version: &Option<Choice<TlsVersion>>, field| {
            let version = version.as_ref()?.check(at, field, problems);
            version.filter(|version| *version != TlsVersion::Auto)
        };
        let (min, max) = (exact(&self.min, "min"), exact(&self.max, "max"));
        if let (Some(min), Some(max)) = (min, max) {
            problems.require(min <= max, &at.field("min"), "min version must be lower than max");
        }
    }
}
