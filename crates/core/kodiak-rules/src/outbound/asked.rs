//! Index of policy items by destination.

use std::{collections::BTreeMap, sync::Arc};

use kodiak_model::{
    Kri, Labels,
    policy::{Conf, ConfShape},
};

use super::{
    Entry, NameResolution, ResourceRule, ResourceRules, entries, is_for_route,
    resolve::{Called, Meaning, Who},
};
use crate::{Policy, Resource, Resources, merge, route_hash, routes};

/// Items of policies of one kind, by their targets. Built from the policies alone, so a change of one destination costs
/// nothing for the others.
#[derive(Debug, Clone, Default)]
pub struct Asked {
    /// In ascending precedence.
    all: Vec<IndexedItem>,
    by_name: BTreeMap<Called, Vec<usize>>,
    /// By key and value of one label: of an item's labels, the one that the fewest items have.
    by_label: BTreeMap<String, BTreeMap<String, Vec<usize>>>,
}

#[derive(Debug, Clone)]
struct IndexedItem {
    entry: Entry,
    meaning: Meaning,
    conf: Conf,
}

impl Asked {
    /// A port inherits rules from its resource and its mesh; never the reverse.
    pub fn new(policies: &[Arc<Policy>], resolution: NameResolution) -> Self {
        let mut entries = entries(policies);
        // These apply only to routes of `kuma.io/service` destinations.
        entries.retain(|entry| !is_for_route(&entry.policy));
        let item =
            |entry: Entry| Meaning::of(&entry, resolution).map(|(meaning, conf)| IndexedItem { entry, meaning, conf });
        let all: Vec<IndexedItem> = entries.into_iter().filter_map(item).collect();
        let (mut by_name, mut by_label): (BTreeMap<_, Vec<_>>, BTreeMap<_, BTreeMap<_, Vec<_>>>) = <_>::default();
        let counts = label_counts(&all);
        for (n, item) in all.iter().enumerate() {
            match &item.meaning.who {
                Who::Called(called) => by_name.entry(called.clone()).or_default().push(n),
                Who::Labelled(labelled) => {
                    let rarest = labelled.labels.iter().min_by_key(|label| counts[label]);
                    let (key, value) = rarest.expect("a target by labels has at least one label");
                    by_label.entry(key.clone()).or_default().entry(value.clone()).or_default().push(n);
                }
            }
        }
        Self { all, by_name, by_label }
    }

    /// Rule of one port of a destination, or of the whole destination when the section is empty. `None` without items.
    pub fn about(&self, destination: &Resource, section: &str) -> Option<ResourceRule> {
        let inherited = self.inherited(destination, section);
        (!inherited.is_empty()).then(|| self.merged(Arc::new(destination.clone()), section, inherited))
    }

    /// Rule of the routes of one MeshHTTPRoute. `None` when no item targets it: then the rule of the destination
    /// applies.
    pub fn about_route(&self, route: &Resource) -> Option<ResourceRule> {
        let own = !self.own(route, "").is_empty();
        own.then(|| self.merged(Arc::new(route.clone()), "", self.inherited(route, "")))
    }

    /// Rules of each of the resources, and of each of their ports, that an item targets directly. Items for other
    /// resources are ignored, so a mesh only counts if it is one of them.
    pub fn rules(&self, resources: &Resources) -> ResourceRules {
        let found: Vec<_> = self.all.iter().map(|item| item.meaning.find(resources)).collect();
        let mut rules = ResourceRules::new();
        for (resource, section) in found.iter().flatten() {
            let Some(whole) = resource.kri() else { continue };
            let rule = || {
                let inherited =
                    self.inherited(resource, section).into_iter().filter(|n| !found[*n].is_empty()).collect();
                self.merged(Arc::clone(resource), section, inherited)
            };
            rules.entry(Kri { section: section.clone(), ..whole }).or_insert_with(rule);
        }
        rules
    }

    /// Indexes of all items for a port, its resource and their mesh, in ascending precedence.
    fn inherited(&self, resource: &Resource, section: &str) -> Vec<usize> {
        let mut inherited = self.own(resource, section);
        inherited.extend(self.by_name.get(&Called::mesh(&resource.mesh)).into_iter().flatten());
        inherited.sort_unstable();
        inherited
    }

    /// Without those of the mesh.
    fn own(&self, resource: &Resource, section: &str) -> Vec<usize> {
        let called = Called::of(resource);
        let by_name = called.and_then(|called| self.by_name.get(&called)).into_iter().flatten();
        let by_label = self.labelled(&resource.labels).filter(|n| match &self.all[**n].meaning.who {
            Who::Labelled(labelled) => labelled.is(resource),
            Who::Called(_) => false,
        });
        by_name.chain(by_label).copied().filter(|n| self.all[*n].meaning.includes(resource, section)).collect()
    }

    fn labelled<'a>(&'a self, labels: &'a Labels) -> impl Iterator<Item = &'a usize> {
        labels.iter().filter_map(|(key, value)| self.by_label.get(key)?.get(value)).flatten()
    }

    fn merged(&self, resource: Arc<Resource>, section: &str, inherited: Vec<usize>) -> ResourceRule {
        let inherited: Vec<&IndexedItem> = inherited.into_iter().map(|n| &self.all[n]).collect();
        let shape = inherited.first().and_then(|item| item.entry.policy.kind.policy);
        let shape = shape.map_or(ConfShape::Default, |facts| facts.conf);
        let mut by_matches = BTreeMap::new();
        if shape == ConfShape::Routes {
            for IndexedItem { entry, conf, .. } in &inherited {
                by_matches.extend(routes::matches(conf).map(|matches| (route_hash(matches), entry.clone())));
            }
        }
        ResourceRule {
            resource,
            section: section.to_owned(),
            confs: merge::merge(shape, inherited.iter().map(|item| &item.conf)),
            origins: inherited.iter().map(|item| item.entry.clone()).collect(),
            by_matches,
        }
    }
}

/// Number of items with each label.
fn label_counts(all: &[IndexedItem]) -> BTreeMap<(&String, &String), usize> {
    let mut counts = BTreeMap::new();
    for item in all {
        if let Who::Labelled(labelled) = &item.meaning.who {
            for label in &labelled.labels {
                *counts.entry(label).or_default() += 1;
            }
        }
    }
    counts
}
