//! `backendRef`: the destination of a route. A `targetRef` with a port and a weight.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    Choice, FieldPath, Problems,
    target_ref::{ProxyType, TargetKind, TargetRef, TargetRules},
};

/// The fields of [`TargetRef`] are repeated because serde cannot report unknown fields of a flattened struct.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["kind"]))]
pub struct BackendRef {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<Choice<TargetKind>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mesh: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tags: Option<BTreeMap<String, String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub labels: Option<BTreeMap<String, String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub section_name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proxy_types: Option<Vec<Choice<ProxyType>>>,
    pub weight: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<u32>,
}

impl BackendRef {
    /// Whether it means a `kuma.io/service`: with a port, a MeshService is the resource.
    pub fn is_legacy(&self) -> bool {
        match self.kind.as_ref().and_then(Choice::known) {
            Some(TargetKind::MeshService) => {
                self.port.is_none() && self.section_name.as_ref().is_none_or(String::is_empty)
            }
            Some(TargetKind::MeshServiceSubset) => true,
            _ => false,
        }
    }
}

impl Default for BackendRef {
    fn default() -> Self {
        Self {
            kind: None,
            name: None,
            namespace: None,
            mesh: None,
            tags: None,
            labels: None,
            section_name: None,
            proxy_types: None,
            weight: 1,
            port: None,
        }
    }
}

impl BackendRef {
    pub fn target_ref(&self) -> TargetRef {
        TargetRef {
            kind: self.kind.clone(),
            name: self.name.clone(),
            namespace: self.namespace.clone(),
            mesh: self.mesh.clone(),
            tags: self.tags.clone(),
            labels: self.labels.clone(),
            section_name: self.section_name.clone(),
            proxy_types: self.proxy_types.clone(),
        }
    }

    pub fn check(&self, kinds: &[TargetKind], at: &FieldPath<'_>, problems: &mut Problems) {
        let target = self.target_ref();
        target.check(TargetRules::kinds(kinds), at, problems);
        if target.known_kind() == Some(TargetKind::MeshMultiZoneService) && self.port.is_none() {
            problems.add(&at.field("port"), "must be defined with kind MeshMultiZoneService");
        }
    }
}
