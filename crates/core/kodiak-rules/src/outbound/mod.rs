//! Rules for destinations that are resources: from the mesh into a resource into a port.

mod order;
mod resolve;
#[cfg(test)]
mod tests;

use std::{collections::BTreeMap, sync::Arc};

use kodiak_model::{
    Kri, TargetKind, TargetRef,
    kinds::mesh,
    policy::{Conf, ConfShape, Item},
};

pub use order::entries;

use crate::{Policy, Resource, Resources, merge, route_hash, routes};

/// An item of `to`, and where it stands.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    pub policy: Arc<Policy>,
    pub index: usize,
}

impl Entry {
    pub fn item(&self) -> &Item {
        &self.policy.body.to[self.index]
    }
}

#[derive(Debug, Clone)]
pub struct ResourceRule {
    pub resource: Arc<Resource>,
    /// The name of the port; empty for the whole resource.
    pub section: String,
    /// One, or one for each hostname of a route.
    pub confs: Vec<Conf>,
    /// Weakest first.
    pub origins: Vec<Entry>,
    /// Of routes: by the hash of the matches.
    pub by_matches: BTreeMap<String, Entry>,
}

/// By the KRI of the resource, with the section.
pub type ResourceRules = BTreeMap<Kri, ResourceRule>;

/// What is said about one resource or port, by the places of the entries.
struct Said<'a> {
    resource: &'a Arc<Resource>,
    confs: Vec<(usize, Conf)>,
}

/// Policies of one kind. What a port is told is also what its resource and the mesh are told, and never the other way.
pub fn rules(policies: &[Arc<Policy>], resources: &Resources) -> ResourceRules {
    let mut entries = entries(policies);
    // These are about routes of `kuma.io/service` destinations alone.
    entries.retain(|entry| !is_for_route(&entry.policy));
    let mut all: BTreeMap<Kri, Said<'_>> = BTreeMap::new();
    for (n, entry) in entries.iter().enumerate() {
        for (kri, resource, conf) in resolve::meant(entry, resources) {
            all.entry(kri).or_insert_with(|| Said { resource, confs: Vec::new() }).confs.push((n, conf));
        }
    }
    all.iter().map(|(kri, own)| (kri.clone(), rule(kri, own, &all, &entries))).collect()
}

/// The rule for a destination: its own, else that of the whole resource, else that of the mesh.
pub fn find<'a>(rules: &'a ResourceRules, destination: &Kri) -> Option<&'a ResourceRule> {
    let around = [whole(destination), mesh_of(&destination.mesh)];
    rules.get(destination).or_else(|| around.iter().find_map(|kri| rules.get(kri)))
}

pub(crate) fn is_for_route(policy: &Policy) -> bool {
    policy.body.target.as_ref().and_then(TargetRef::known_kind) == Some(TargetKind::MeshHTTPRoute)
}

fn rule(kri: &Kri, own: &Said<'_>, all: &BTreeMap<Kri, Said<'_>>, entries: &[Entry]) -> ResourceRule {
    let around = [Some(whole(kri)).filter(|whole| whole != kri), Some(mesh_of(&kri.mesh))];
    let around = around.iter().flatten().filter_map(|kri| all.get(kri));
    let mut heard: Vec<&(usize, Conf)> = around.chain([own]).flat_map(|said| &said.confs).collect();
    heard.sort_by_key(|(n, _)| *n);
    let origins: Vec<Entry> = heard.iter().map(|(n, _)| entries[*n].clone()).collect();
    let shape = origins.first().and_then(|entry| entry.policy.kind.policy).map_or(ConfShape::Default, |it| it.conf);
    let mut by_matches = BTreeMap::new();
    if shape == ConfShape::Routes {
        for (n, conf) in &heard {
            by_matches.extend(routes::matches(conf).map(|matches| (route_hash(matches), entries[*n].clone())));
        }
    }
    ResourceRule {
        resource: own.resource.clone(),
        section: kri.section.clone(),
        confs: merge::merge(shape, heard.into_iter().map(|(_, conf)| conf)),
        origins,
        by_matches,
    }
}

fn whole(kri: &Kri) -> Kri {
    Kri { section: String::new(), ..kri.clone() }
}

fn mesh_of(name: &str) -> Kri {
    Kri::of(&mesh::KIND, "", name, &<_>::default()).expect("a Mesh has a short name")
}
