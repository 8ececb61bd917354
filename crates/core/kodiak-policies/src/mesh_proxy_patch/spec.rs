//! Spec of MeshProxyPatch.

use std::collections::BTreeMap;

use kodiak_model::{Choice, TargetRef, words};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::JsonPatch;

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["default"]))]
pub struct MeshProxyPatch {
    /// The proxies that this policy selects. All proxies of the mesh when missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_ref: Option<TargetRef>,
    pub default: Conf,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Conf {
    /// Applied in order, after those of broader policies.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub append_modifications: Option<Vec<Modification>>,
}

/// One modification: exactly one of the members.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Modification {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster: Option<ClusterMod>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub listener: Option<ListenerMod>,
    /// A network filter in the filter chains of listeners.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network_filter: Option<FilterMod>,
    /// An HTTP filter in the connection managers of listeners.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub http_filter: Option<FilterMod>,
    /// A virtual host in the route configurations.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub virtual_host: Option<VirtualHostMod>,
}

words! {
    pub enum ResourceOperation {
        Add = "Add",
        Remove = "Remove",
        Patch = "Patch",
    }
}

words! {
    pub enum FilterOperation {
        Remove = "Remove",
        Patch = "Patch",
        AddFirst = "AddFirst",
        AddBefore = "AddBefore",
        AddAfter = "AddAfter",
        AddLast = "AddLast",
    }
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["operation"]))]
pub struct ClusterMod {
    /// Selects clusters. All when missing.
    #[serde(rename = "match", skip_serializing_if = "Option::is_none")]
    pub matching: Option<ClusterMatch>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operation: Option<Choice<ResourceOperation>>,
    /// The cluster to add, or the patch for matching ones, in YAML.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub json_patches: Option<Vec<JsonPatch>>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ClusterMatch {
    /// Origin of the resource: inbound, outbound, transparent, prometheus, direct-access, ingress, egress, gateway or a
    /// policy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub origin: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["operation"]))]
pub struct ListenerMod {
    /// Selects listeners. All when missing.
    #[serde(rename = "match", skip_serializing_if = "Option::is_none")]
    pub matching: Option<ListenerMatch>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operation: Option<Choice<ResourceOperation>>,
    /// The listener to add, or the patch for matching ones, in YAML.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub json_patches: Option<Vec<JsonPatch>>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ListenerMatch {
    /// Origin of the resource: inbound, outbound, transparent, prometheus, direct-access, ingress, egress, gateway or a
    /// policy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub origin: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Tags that the listener must have in its metadata under io.kuma.tags.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tags: Option<BTreeMap<String, String>>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["operation"]))]
pub struct FilterMod {
    /// Selects filters. All when missing.
    #[serde(rename = "match", skip_serializing_if = "Option::is_none")]
    pub matching: Option<FilterMatch>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operation: Option<Choice<FilterOperation>>,
    /// The filter to add, or the patch for matching ones, in YAML.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub json_patches: Option<Vec<JsonPatch>>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct FilterMatch {
    /// Origin of the listener: inbound, outbound, transparent, prometheus, direct-access, ingress, egress, gateway or a
    /// policy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub origin: Option<String>,
    /// Name of the filter, such as envoy.filters.http.local_ratelimit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub listener_name: Option<String>,
    /// Tags that the listener must have in its metadata under io.kuma.tags.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub listener_tags: Option<BTreeMap<String, String>>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["match", "operation"]))]
pub struct VirtualHostMod {
    /// Selects virtual hosts, or the route configurations that one is added to.
    #[serde(rename = "match", skip_serializing_if = "Option::is_none")]
    pub matching: Option<VirtualHostMatch>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operation: Option<Choice<ResourceOperation>>,
    /// The virtual host to add, or the patch for matching ones, in YAML.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub json_patches: Option<Vec<JsonPatch>>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct VirtualHostMatch {
    /// Origin of the listener: inbound, outbound, transparent, prometheus, direct-access, ingress, egress, gateway or a
    /// policy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub origin: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub route_configuration_name: Option<String>,
}
