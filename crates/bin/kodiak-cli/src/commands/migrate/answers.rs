//! Answers of `/meshes/{mesh}/_migration`, as far as the commands read or print them.

use kodiak_model::Choice;
use kodiak_model::kinds::mesh::MeshServicesMode;
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
pub(super) struct Standing {
    pub(super) mesh: String,
    pub(super) mode: Choice<MeshServicesMode>,
    pub(super) services: Vec<ServiceStanding>,
    /// Policies with legacy references.
    pub(super) policies: Vec<PolicyStanding>,
}

/// Value of `kuma.io/service` of a Dataplane.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ServiceStanding {
    pub(super) service: String,
    pub(super) proxies: usize,
    pub(super) ports: usize,
    /// Zones with a ready proxy.
    pub(super) zones: Vec<String>,
    /// Replacement: the MeshServices to call.
    pub(super) objects: Vec<Object>,
    /// Whether a MeshService is generated for it.
    pub(super) generated: bool,
    /// A MeshMultiZoneService stands for one of the objects.
    pub(super) in_all_zones: bool,
}

#[derive(Serialize, Deserialize)]
pub(super) struct Object {
    pub(super) kri: String,
    pub(super) hostnames: Vec<String>,
    pub(super) ports: Vec<u32>,
}

#[derive(Serialize, Deserialize)]
pub(super) struct PolicyStanding {
    #[serde(rename = "type")]
    pub(super) kind: String,
    pub(super) name: String,
    pub(super) findings: Vec<Finding>,
}

/// Legacy reference.
#[derive(Serialize, Deserialize)]
pub(super) struct Finding {
    pub(super) path: String,
    pub(super) reference: String,
    /// Value of `kuma.io/service`; empty for a reference by other tags.
    pub(super) service: String,
    pub(super) outcome: Outcome,
    /// References with the same meaning.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) new: Vec<String>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(super) message: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Outcome {
    Converted,
    ConvertedBefore,
    /// Ambiguous, or its target does not exist.
    Unclear,
    /// Part of a route.
    Examine,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Consumer {
    pub(super) name: String,
    pub(super) mode: Choice<MeshServicesMode>,
    pub(super) lists: Lists,
    pub(super) connected: bool,
    /// Services that it has outbounds for, by their tags.
    pub(super) old: Vec<String>,
    /// Number of ports of objects that it has outbounds for.
    pub(super) new: usize,
    /// Policies for its outbounds that use kuma.io/service only: `MeshTimeout slow`.
    pub(super) policies: Vec<String>,
    pub(super) routes: Vec<String>,
    /// Services of `old` that it calls in other zones too, and with a MeshService would call in one.
    pub(super) cross_zone: Vec<String>,
}

/// Source of the destinations of a Dataplane.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Lists {
    Nothing,
    Services,
    Backends,
    Outbounds,
}

impl PolicyStanding {
    pub(super) fn has(&self, outcome: Outcome) -> bool {
        self.findings.iter().any(|finding| finding.outcome == outcome)
    }
}
