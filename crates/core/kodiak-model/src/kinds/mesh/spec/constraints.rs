//! Membership constraints of a mesh.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::proto_json::is_default;

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct MeshConstraints {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dataplane_proxy: Option<ProxyConstraints>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ProxyConstraints {
    /// A proxy must have the tags of one of these.
    #[serde(skip_serializing_if = "is_default")]
    pub requirements: Vec<TagRule>,
    /// A proxy with the tags of one of these is rejected.
    #[serde(skip_serializing_if = "is_default")]
    pub restrictions: Vec<TagRule>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct TagRule {
    /// `*` matches any value.
    #[serde(skip_serializing_if = "is_default")]
    pub tags: BTreeMap<String, String>,
}
