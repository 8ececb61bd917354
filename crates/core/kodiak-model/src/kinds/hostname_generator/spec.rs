//! Spec of a HostnameGenerator.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{LabelSelector, extension::Extension};

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["template"]))]
pub struct HostnameGenerator {
    /// The destinations that get a hostname: exactly one kind of them.
    pub selector: Selector,
    /// The hostname, with `{{ .DisplayName }}`, `{{ .Name }}`, `{{ .Namespace }}`, `{{ .Mesh }}`, `{{ .Zone }}` and `{{
    /// label "key" }}` filled in from the destination.
    pub template: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub extension: Option<Extension>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Selector {
    /// MeshServices with these labels.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mesh_service: Option<LabelSelector>,
    /// MeshExternalServices with these labels.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mesh_external_service: Option<LabelSelector>,
    /// MeshMultiZoneServices with these labels.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mesh_multi_zone_service: Option<LabelSelector>,
}
