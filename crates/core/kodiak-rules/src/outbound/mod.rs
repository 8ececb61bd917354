//! Rules for destinations that are resources: inherited from the mesh to a resource to a port.
//!
//! ```text
//!  policies --> order: items in ascending precedence --> resolve: their targets --> Asked: rule of one destination
//! ```

mod asked;
mod order;
mod resolve;
mod targets;
#[cfg(test)]
mod tests;

use std::{collections::BTreeMap, sync::Arc};

use kodiak_model::{
    Kri, TargetKind, TargetRef,
    kinds::mesh,
    policy::{Conf, Item},
};

pub use asked::Asked;
pub use order::entries;
pub use targets::{PolicyTargets, targets_of};

use crate::{Policy, Resource, Resources};

/// How a plain MeshService name is resolved by kinds that do not apply to legacy names: routes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NameResolution {
    /// Services by `kuma.io/service` and MeshServices coexist: it is a `kuma.io/service`.
    Both,
    /// Only MeshServices are left: it is a MeshService.
    Objects,
}

/// An item of `to`, and its policy.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    pub policy: Arc<Policy>,
    pub index: usize,
}

impl Entry {
    pub fn item(&self) -> &Item {
        &self.policy.body.to[self.index]
    }

    /// The legacy name by which it references a MeshService, if it does.
    pub fn legacy_name(&self) -> Option<&str> {
        let target = &self.item().target;
        resolve::legacy_name(target).and(target.name.as_deref())
    }
}

#[derive(Debug, Clone)]
pub struct ResourceRule {
    pub resource: Arc<Resource>,
    /// Name of the port; empty for the whole resource.
    pub section: String,
    /// One, or one for each hostname of a route.
    pub confs: Vec<Conf>,
    /// In ascending precedence.
    pub origins: Vec<Entry>,
    /// Of routes: by the hash of the matches.
    pub by_matches: BTreeMap<String, Entry>,
}

/// By the KRI of the resource, with the section.
pub type ResourceRules = BTreeMap<Kri, ResourceRule>;

/// Policies of one kind, where only MeshServices are left.
pub fn rules(policies: &[Arc<Policy>], resources: &Resources) -> ResourceRules {
    Asked::new(policies, NameResolution::Objects).rules(resources)
}

/// The rule for a destination: its own, else that of the whole resource, else that of the mesh.
pub fn find<'a>(rules: &'a ResourceRules, destination: &Kri) -> Option<&'a ResourceRule> {
    let around = [Kri { section: String::new(), ..destination.clone() }, mesh_of(&destination.mesh)];
    rules.get(destination).or_else(|| around.iter().find_map(|kri| rules.get(kri)))
}

pub(crate) fn is_for_route(policy: &Policy) -> bool {
    policy.body.target.as_ref().and_then(TargetRef::known_kind) == Some(TargetKind::MeshHTTPRoute)
}

fn mesh_of(name: &str) -> Kri {
    Kri::of(&mesh::KIND, "", name, &<_>::default()).expect("a Mesh has a short name")
}
