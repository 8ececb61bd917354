//! Index of the Dataplanes of each MeshService in a mesh, updated by changes.
//!
//! **Invariant:** the cost of a change is proportional to the affected members, not to all Dataplanes or MeshServices.

#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use kodiak_model::kinds::mesh_service::Selector;
use kodiak_rules::Proxy;

type Names = BTreeSet<Arc<str>>;

#[derive(Default)]
pub struct Membership {
    proxies: BTreeMap<Arc<str>, Arc<Proxy>>,
    /// Proxies by each of their [`Trait`]s.
    by_trait: BTreeMap<Trait, Names>,
    services: BTreeMap<Arc<str>, Selector>,
    /// MeshServices by one trait that their selector requires.
    by_anchor: BTreeMap<Trait, Names>,
    members: BTreeMap<Arc<str>, Names>,
    services_of: BTreeMap<Arc<str>, Names>,
}

/// Property that a selector can require.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Trait {
    Any,
    Name(String),
    Tag(String, String),
    Label(String, String),
}

impl Membership {
    /// Returns the MeshServices that select or selected the Dataplane.
    pub fn set_proxy(&mut self, name: &Arc<str>, proxy: Option<&Arc<Proxy>>) -> BTreeSet<Arc<str>> {
        if let Some(old) = self.proxies.remove(name) {
            for each in traits(&old) {
                leave(&mut self.by_trait, &each, name);
            }
        }
        let before = self.services_of.remove(name).unwrap_or_default();
        for service in &before {
            leave(&mut self.members, service, name);
        }
        let mut concerned = before;
        if let Some(proxy) = proxy.filter(|proxy| !proxy.dataplane.inbounds().is_empty()) {
            let mut after = Names::new();
            for each in traits(proxy) {
                let waiting = self.by_anchor.get(&each).into_iter().flatten();
                after.extend(waiting.filter(|service| selects(&self.services[*service], proxy)).cloned());
                self.by_trait.entry(each).or_default().insert(name.clone());
            }
            for service in &after {
                self.members.entry(service.clone()).or_default().insert(name.clone());
            }
            concerned.extend(after.iter().cloned());
            if !after.is_empty() {
                self.services_of.insert(name.clone(), after);
            }
            self.proxies.insert(name.clone(), proxy.clone());
        }
        concerned
    }

    /// `None` when the MeshService was deleted, or is of another zone.
    pub fn set_service(&mut self, name: &Arc<str>, selector: Option<&Selector>) {
        if self.services.get(name) == selector {
            return;
        }
        if let Some(anchor) = self.services.remove(name).as_ref().and_then(anchor) {
            leave(&mut self.by_anchor, &anchor, name);
        }
        for proxy in self.members.remove(name).unwrap_or_default() {
            leave(&mut self.services_of, &proxy, name);
        }
        let Some(selector) = selector else { return };
        self.services.insert(name.clone(), selector.clone());
        let Some(anchor) = anchor(selector) else { return };
        let candidates = self.by_trait.get(&anchor).into_iter().flatten();
        let members: Names = candidates.filter(|proxy| selects(selector, &self.proxies[*proxy])).cloned().collect();
        self.by_anchor.entry(anchor).or_default().insert(name.clone());
        for proxy in &members {
            self.services_of.entry(proxy.clone()).or_default().insert(name.clone());
        }
        if !members.is_empty() {
            self.members.insert(name.clone(), members);
        }
    }

    /// Dataplanes of a MeshService, by name.
    pub fn members(&self, service: &str) -> impl Iterator<Item = &Arc<Proxy>> {
        self.members.get(service).into_iter().flatten().map(|proxy| &self.proxies[proxy])
    }

    /// MeshServices that select a Dataplane.
    pub fn services_of(&self, proxy: &str) -> impl Iterator<Item = &Arc<str>> {
        self.services_of.get(proxy).into_iter().flatten()
    }
}

/// Whether a Dataplane with inbounds is selected: by name, by labels, or by tags that one inbound has in full.
fn selects(selector: &Selector, proxy: &Proxy) -> bool {
    let Selector { dataplane_tags, dataplane_ref, dataplane_labels } = selector;
    if let Some(tags) = dataplane_tags {
        let has_all =
            |inbound: &BTreeMap<String, String>| tags.iter().all(|(key, value)| inbound.get(key) == Some(value));
        return !tags.is_empty() && proxy.dataplane.inbounds().iter().any(|inbound| has_all(&inbound.tags));
    }
    if let Some(reference) = dataplane_ref {
        return *reference.name == *proxy.name;
    }
    dataplane_labels.as_ref().is_some_and(|labels| labels.matches(&proxy.labels))
}

/// `None` for an empty selector, which selects no Dataplane.
fn anchor(selector: &Selector) -> Option<Trait> {
    let Selector { dataplane_tags, dataplane_ref, dataplane_labels } = selector;
    if let Some(tags) = dataplane_tags {
        return tags.first_key_value().map(|(key, value)| Trait::Tag(key.clone(), value.clone()));
    }
    if let Some(reference) = dataplane_ref {
        return Some(Trait::Name(reference.name.clone()));
    }
    let labels = dataplane_labels.as_ref()?.match_labels.as_ref();
    let first = labels.and_then(BTreeMap::first_key_value);
    Some(first.map_or(Trait::Any, |(key, value)| Trait::Label(key.clone(), value.clone())))
}

fn traits(proxy: &Proxy) -> BTreeSet<Trait> {
    let inbounds = proxy.dataplane.inbounds().iter();
    let tags = inbounds.flat_map(|inbound| &inbound.tags).map(|(key, value)| Trait::Tag(key.clone(), value.clone()));
    let labels = proxy.labels.iter().map(|(key, value)| Trait::Label(key.clone(), value.clone()));
    tags.chain(labels).chain([Trait::Any, Trait::Name(proxy.name.to_string())]).collect()
}

/// Removes empty entries.
fn leave<K: Ord>(map: &mut BTreeMap<K, Names>, key: &K, name: &Arc<str>) {
    if let Some(names) = map.get_mut(key) {
        names.remove(name);
        if names.is_empty() {
            map.remove(key);
        }
    }
}
