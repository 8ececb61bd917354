//! Spec of a MeshTrust.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Choice, words};

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["trustDomain", "caBundles"]))]
pub struct MeshTrust {
    /// Written by older control planes. Do not set it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub origin: Option<Origin>,
    /// Trust domain of the SPIFFE IDs that these CAs sign.
    #[schemars(length(max = 253))]
    pub trust_domain: String,
    /// All of them are trusted.
    #[schemars(length(min = 1))]
    pub ca_bundles: Vec<CaBundle>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Origin {
    /// KRI of the MeshIdentity that this was created for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kri: Option<String>,
}

words! {
    pub enum CaBundleType {
        Pem = "Pem",
    }
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["type"]))]
pub struct CaBundle {
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub bundle_type: Option<Choice<CaBundleType>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pem: Option<Pem>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["value"]))]
pub struct Pem {
    /// PEM certificates, starting with `-----BEGIN CERTIFICATE-----`. Never a private key.
    pub value: String,
}
