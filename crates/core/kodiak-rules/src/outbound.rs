//! Rules for destinations that are resources: from the mesh into a resource into a port.

use std::{collections::BTreeMap, sync::Arc};

use kodiak_model::{
    Kri,
    policy::{Conf, Item},
};

use crate::{Policy, Resource, Resources};

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

/// All items of `to`, weakest first.
pub fn entries(policies: &[Arc<Policy>]) -> Vec<Entry> {
    todo!()
}

pub fn rules(policies: &[Arc<Policy>], resources: &Resources) -> ResourceRules {
    todo!()
}

/// The rule for a destination: its own, else that of the whole resource, else that of the mesh.
pub fn find<'a>(rules: &'a ResourceRules, destination: &Kri) -> Option<&'a ResourceRule> {
    todo!()
}
