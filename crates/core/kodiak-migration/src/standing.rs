//! Migration progress of a mesh.

use std::collections::BTreeSet;

use kodiak_model::{dns::dns_1035_label, kinds::mesh::MeshServicesMode};
use kodiak_rules::Policy;
use serde_json::Value;

use super::{Finding, Landscape, OldItems, Outcome, convert};
use kodiak_world::destination::Destination;

#[derive(Debug, Clone, PartialEq)]
pub struct Standing {
    pub mesh: String,
    pub mode: MeshServicesMode,
    pub services: Vec<ServiceStanding>,
    /// Policies with legacy references.
    pub policies: Vec<PolicyStanding>,
}

/// Value of `kuma.io/service` of a Dataplane.
#[derive(Debug, Clone, PartialEq)]
pub struct ServiceStanding {
    pub service: String,
    pub proxies: usize,
    pub ports: usize,
    /// Zones with a ready proxy.
    pub zones: Vec<String>,
    /// Replacement: the MeshServices to call.
    pub objects: Vec<Object>,
    /// Whether a MeshService is generated for it.
    pub generated: bool,
    /// A MeshMultiZoneService stands for one of the objects.
    pub in_all_zones: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Object {
    pub kri: String,
    pub hostnames: Vec<String>,
    pub ports: Vec<u32>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct PolicyStanding {
    pub kind: String,
    pub name: String,
    pub findings: Vec<Finding>,
}

impl ServiceStanding {
    /// Called in several zones now, and in one zone as a MeshService.
    pub fn stays_in_one_zone(&self) -> bool {
        self.zones.len() > 1 && !self.in_all_zones
    }
}

impl PolicyStanding {
    pub fn has(&self, outcome: Outcome) -> bool {
        self.findings.iter().any(|finding| finding.outcome == outcome)
    }
}

impl Standing {
    /// `policies` are all of the mesh, with their specs.
    pub fn of<'p>(
        mesh: &str,
        landscape: &Landscape<'_>,
        policies: impl IntoIterator<Item = (&'p Policy, &'p Value)>,
    ) -> Self {
        let services = landscape.tagged.keys().map(|service| of_service(service, landscape)).collect();
        let policies = policies.into_iter().filter_map(|(policy, spec)| {
            let findings = convert(policy, spec, landscape, OldItems::Kept).findings;
            let (kind, name) = (policy.kind.name.to_owned(), policy.name.to_string());
            Some(PolicyStanding { kind, name, findings }).filter(|standing| !standing.findings.is_empty())
        });
        Self { mesh: mesh.to_owned(), mode: landscape.view.mode, services, policies: policies.collect() }
    }
}

fn of_service(service: &str, landscape: &Landscape<'_>) -> ServiceStanding {
    let tagged = &landscape.tagged[service];
    let objects = landscape.objects(service);
    ServiceStanding {
        service: service.to_owned(),
        proxies: tagged.proxies.len(),
        ports: tagged.ports.len(),
        zones: tagged.zones.iter().map(|zone| (*zone).to_owned()).collect(),
        in_all_zones: objects.iter().any(|object| is_in_all_zones(object, landscape)),
        objects: objects.into_iter().map(shown).collect(),
        generated: dns_1035_label(service).is_empty(),
    }
}

fn shown(object: &Destination) -> Object {
    let ports: BTreeSet<u32> = object.ports.iter().map(|port| port.port).collect();
    Object {
        kri: object.kri.to_string(),
        hostnames: object.hostnames.iter().map(ToString::to_string).collect(),
        ports: ports.into_iter().collect(),
    }
}

fn is_in_all_zones(object: &Destination, landscape: &Landscape<'_>) -> bool {
    landscape.multi_zone.iter().any(|selector| selector.specificity() > 0 && selector.matches(&object.labels))
}
