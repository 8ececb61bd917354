//! What policies say about a destination, found without looking at other destinations.

use std::{collections::BTreeMap, sync::Arc};

use kodiak_model::{
    Kri, Labels,
    policy::{Conf, ConfShape},
};

use super::{
    Entry, Era, ResourceRule, ResourceRules, entries, is_for_route,
    resolve::{Called, Meaning, Who},
};
use crate::{Policy, Resource, Resources, merge, route_hash, routes};

/// The items of policies of one kind, by what they mean. Made from the policies alone, so a destination that comes,
/// changes or goes costs the others nothing.
#[derive(Debug, Clone, Default)]
pub struct Asked {
    /// Weakest first.
    all: Vec<Said>,
    by_name: BTreeMap<Called, Vec<usize>>,
    /// By the key and the value of one label: of those that an item asks for, the one that the fewest items do.
    by_label: BTreeMap<String, BTreeMap<String, Vec<usize>>>,
}

#[derive(Debug, Clone)]
struct Said {
    entry: Entry,
    meaning: Meaning,
    conf: Conf,
}

impl Asked {
    /// What a port is told is also what its resource and the mesh are told, and never the other way.
    pub fn new(policies: &[Arc<Policy>], era: Era) -> Self {
        let mut entries = entries(policies);
        // These are about routes of `kuma.io/service` destinations alone.
        entries.retain(|entry| !is_for_route(&entry.policy));
        let said = |entry: Entry| Meaning::of(&entry, era).map(|(meaning, conf)| Said { entry, meaning, conf });
        let all: Vec<Said> = entries.into_iter().filter_map(said).collect();
        let (mut by_name, mut by_label): (BTreeMap<_, Vec<_>>, BTreeMap<_, BTreeMap<_, Vec<_>>>) = <_>::default();
        let counts = label_counts(&all);
        for (n, said) in all.iter().enumerate() {
            match &said.meaning.who {
                Who::Called(called) => by_name.entry(called.clone()).or_default().push(n),
                Who::Labelled(labelled) => {
                    let rarest = labelled.labels.iter().min_by_key(|label| counts[label]);
                    let (key, value) = rarest.expect("what is meant by labels has at least one");
                    by_label.entry(key.clone()).or_default().entry(value.clone()).or_default().push(n);
                }
            }
        }
        Self { all, by_name, by_label }
    }

    /// What is said about one port of a destination, or about all of it when the section is empty. `None`: nothing.
    pub fn about(&self, destination: &Resource, section: &str) -> Option<ResourceRule> {
        let heard = self.heard(destination, section);
        (!heard.is_empty()).then(|| self.merged(Arc::new(destination.clone()), section, heard))
    }

    /// What is said about the routes that come from one MeshHTTPRoute. `None` when no item means it: then what is said
    /// about the destination holds.
    pub fn about_route(&self, route: &Resource) -> Option<ResourceRule> {
        let own = !self.own(route, "").is_empty();
        own.then(|| self.merged(Arc::new(route.clone()), "", self.heard(route, "")))
    }

    /// What is said about each of the resources, and each of their ports, that is meant by itself. What means none of
    /// them says nothing: that is how a mesh counts only if it is one of them.
    pub fn rules(&self, resources: &Resources) -> ResourceRules {
        let found: Vec<_> = self.all.iter().map(|said| said.meaning.find(resources)).collect();
        let mut rules = ResourceRules::new();
        for (resource, section) in found.iter().flatten() {
            let Some(whole) = resource.kri() else { continue };
            let rule = || {
                let heard = self.heard(resource, section).into_iter().filter(|n| !found[*n].is_empty()).collect();
                self.merged(Arc::clone(resource), section, heard)
            };
            rules.entry(Kri { section: section.clone(), ..whole }).or_insert_with(rule);
        }
        rules
    }

    /// The places of all that is said about a port, its resource and their mesh, weakest first.
    fn heard(&self, resource: &Resource, section: &str) -> Vec<usize> {
        let mut heard = self.own(resource, section);
        heard.extend(self.by_name.get(&Called::mesh(&resource.mesh)).into_iter().flatten());
        heard.sort_unstable();
        heard
    }

    /// Without the mesh around it.
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

    fn merged(&self, resource: Arc<Resource>, section: &str, heard: Vec<usize>) -> ResourceRule {
        let heard: Vec<&Said> = heard.into_iter().map(|n| &self.all[n]).collect();
        let shape = heard.first().and_then(|said| said.entry.policy.kind.policy);
        let shape = shape.map_or(ConfShape::Default, |facts| facts.conf);
        let mut by_matches = BTreeMap::new();
        if shape == ConfShape::Routes {
            for Said { entry, conf, .. } in &heard {
                by_matches.extend(routes::matches(conf).map(|matches| (route_hash(matches), entry.clone())));
            }
        }
        ResourceRule {
            resource,
            section: section.to_owned(),
            confs: merge::merge(shape, heard.iter().map(|said| &said.conf)),
            origins: heard.iter().map(|said| said.entry.clone()).collect(),
            by_matches,
        }
    }
}

/// How many items ask for each label.
fn label_counts(all: &[Said]) -> BTreeMap<(&String, &String), usize> {
    let mut counts = BTreeMap::new();
    for said in all {
        if let Who::Labelled(labelled) = &said.meaning.who {
            for label in &labelled.labels {
                *counts.entry(label).or_default() += 1;
            }
        }
    }
    counts
}
