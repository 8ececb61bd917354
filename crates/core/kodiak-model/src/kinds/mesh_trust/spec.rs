//! What users write.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Choice, words};

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["trustDomain", "caBundles"]))]
pub struct MeshTrust {
    /// Written by older control planes. Not to be set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub origin: Option<Origin>,
    /// The first part of the SPIFFE IDs that these authorities vouch for.
    #[schemars(length(max = 253))]
    pub trust_domain: String,
    /// Every one of them is believed.
    #[schemars(length(min = 1))]
    pub ca_bundles: Vec<CaBundle>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Origin {
    /// The KRI of the MeshIdentity that this was made for.
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
    /// Certificates, from `-----BEGIN CERTIFICATE-----` on. Never a private key.
    pub value: String,
}
