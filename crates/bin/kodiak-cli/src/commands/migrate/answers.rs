//! Answers of `/meshes/{mesh}/_migration`, as far as the commands read or print them.

use std::collections::BTreeMap;

use kodiak_migration as facts;
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
    /// For each of `old`, hostnames of objects that stand for it and that this consumer reaches.
    pub(super) replacements: BTreeMap<String, Vec<String>>,
    /// Destinations that its Dataplane names and that it loses in a mode.
    pub(super) breaks: Vec<Break>,
}

#[derive(Serialize, Deserialize)]
pub(super) struct Break {
    mode: Choice<MeshServicesMode>,
    destination: String,
    reason: BreakReason,
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
enum BreakReason {
    OutboundWithTags,
    NoObject,
    NotReachable,
    NotListed,
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

/// As the plan reads them.
impl Standing {
    pub(super) fn facts(&self) -> facts::Standing {
        facts::Standing {
            mesh: self.mesh.clone(),
            mode: known(&self.mode),
            services: self.services.iter().map(ServiceStanding::facts).collect(),
            policies: self.policies.iter().map(PolicyStanding::facts).collect(),
        }
    }
}

impl ServiceStanding {
    pub(super) fn facts(&self) -> facts::ServiceStanding {
        let object = |Object { kri, hostnames, ports }: &Object| facts::Object {
            kri: kri.clone(),
            hostnames: hostnames.clone(),
            ports: ports.clone(),
        };
        facts::ServiceStanding {
            service: self.service.clone(),
            proxies: self.proxies,
            ports: self.ports,
            zones: self.zones.clone(),
            objects: self.objects.iter().map(object).collect(),
            generated: self.generated,
            in_all_zones: self.in_all_zones,
        }
    }
}

impl PolicyStanding {
    fn facts(&self) -> facts::PolicyStanding {
        let finding = |finding: &Finding| facts::Finding {
            path: finding.path.clone(),
            reference: finding.reference.clone(),
            service: finding.service.clone(),
            outcome: match finding.outcome {
                Outcome::Converted => facts::Outcome::Converted,
                Outcome::ConvertedBefore => facts::Outcome::ConvertedBefore,
                Outcome::Unclear => facts::Outcome::Unclear,
                Outcome::Examine => facts::Outcome::Examine,
            },
            new: finding.new.clone(),
            message: finding.message.clone(),
        };
        let findings = self.findings.iter().map(finding).collect();
        facts::PolicyStanding { kind: self.kind.clone(), name: self.name.clone(), findings }
    }
}

impl Consumer {
    pub(super) fn facts(&self) -> facts::Consumer {
        let lost = |lost: &Break| facts::Break {
            mode: known(&lost.mode),
            destination: lost.destination.clone(),
            reason: match lost.reason {
                BreakReason::OutboundWithTags => facts::BreakReason::OutboundWithTags,
                BreakReason::NoObject => facts::BreakReason::NoObject,
                BreakReason::NotReachable => facts::BreakReason::NotReachable,
                BreakReason::NotListed => facts::BreakReason::NotListed,
            },
        };
        facts::Consumer {
            name: self.name.clone(),
            mode: known(&self.mode),
            lists: match self.lists {
                Lists::Nothing => facts::Lists::Nothing,
                Lists::Services => facts::Lists::Services,
                Lists::Backends => facts::Lists::Backends,
                Lists::Outbounds => facts::Lists::Outbounds,
            },
            connected: self.connected,
            old: self.old.clone(),
            new: self.new,
            policies: self.policies.clone(),
            routes: self.routes.clone(),
            cross_zone: self.cross_zone.clone(),
            replacements: self.replacements.clone(),
            breaks: self.breaks.iter().map(lost).collect(),
        }
    }
}

/// A mode that this version does not know gets the plan of the first one.
fn known(mode: &Choice<MeshServicesMode>) -> MeshServicesMode {
    mode.known().unwrap_or(MeshServicesMode::Disabled)
}
