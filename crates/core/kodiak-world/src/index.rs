//! Indexes of one mesh: policies by their targets, and the resources that policies reference.
//!
//! A reader that looks once builds them here. The engine keeps its own up to date with every change.

use std::sync::Arc;

use kodiak_model::{Kind, PortSection, ResourceKey, policy::ConfShape};
use kodiak_rules::{PolicyIndex, Resources};

use crate::{Resource, World, destination};

impl World {
    /// Policies of the given kinds, with the MeshGateways and proxies that they may select.
    pub fn policy_index<'a>(&self, kinds: impl IntoIterator<Item = &'a Kind>, mesh: &str) -> PolicyIndex {
        let mut index = PolicyIndex::default();
        for kind in kinds {
            for policy in self.policies(kind, mesh) {
                index.set_policy(&(policy.kind.name, policy.name.clone()), Some(policy.clone()));
            }
        }
        for gateway in self.gateways(mesh) {
            index.set_gateway(&gateway.name.clone(), Some(Arc::new(gateway)));
        }
        for proxy in self.proxies(mesh) {
            index.set_proxy(&proxy.name, Some(proxy.clone()));
        }
        index
    }

    /// The mesh, its destinations, and its routes among the given kinds of policies.
    pub fn policy_targets<'a>(&self, kinds: impl IntoIterator<Item = &'a Kind>, mesh: &str) -> Resources {
        let mut targets = Resources::default();
        if let Some(own) = self.get(&ResourceKey::global("Mesh", mesh)) {
            targets.insert(target(&kodiak_model::kinds::mesh::KIND, own, Vec::new()));
        }
        for kind in kinds.into_iter().filter(|kind| kind.policy.is_some_and(|facts| facts.conf == ConfShape::Routes)) {
            for route in self.policies(kind, mesh) {
                targets.insert_route(route.clone());
            }
        }
        for (kind, _) in destination::KINDS {
            for resource in self.list_in(kind.name, mesh) {
                let Some(destination) = resource.destination() else { continue };
                let ports = destination.ports.iter();
                let ports = ports.map(|port| PortSection { port: port.port, section: port.section.clone() });
                targets.insert(target(kind, resource, ports.collect()));
            }
        }
        targets
    }
}

fn target(kind: &'static Kind, resource: &Resource, ports: Vec<PortSection>) -> kodiak_rules::Resource {
    let ResourceKey { mesh, name, .. } = resource.key.clone();
    kodiak_rules::Resource { kind, mesh, name, labels: resource.labels.clone(), ports }
}
