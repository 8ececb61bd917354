//! Index of partial proxies: which of them a policy may select.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::{PartialProxy, Profile, Property, narrowest, requirements};
use crate::Policy;

/// Partial proxies by their keys.
///
/// **Invariant:** a policy is compared with the proxies that have one of its pairs, or that may have all of them.
#[derive(Debug)]
pub struct PartialProxies<K> {
    known: BTreeMap<K, PartialProxy>,
    by_profile: BTreeMap<Profile, Members<K>>,
}

/// Proxies with the same known properties.
#[derive(Debug)]
struct Members<K> {
    all: BTreeSet<K>,
    by_property: HashMap<(Property, String), BTreeSet<K>>,
}

impl<K> Default for PartialProxies<K> {
    fn default() -> Self {
        Self { known: BTreeMap::new(), by_profile: BTreeMap::new() }
    }
}

impl<K: Ord + Clone> PartialProxies<K> {
    pub fn set(&mut self, key: &K, proxy: Option<PartialProxy>) {
        if self.known.get(key) == proxy.as_ref() {
            return;
        }
        if let Some(old) = self.known.remove(key) {
            self.remove(key, &old);
        }
        if let Some(new) = proxy {
            let members = self.by_profile.entry(new.profile()).or_default();
            members.all.insert(key.clone());
            for (property, value) in &new.0 {
                members.by_property.entry((property.clone(), value.clone())).or_default().insert(key.clone());
            }
            self.known.insert(key.clone(), new);
        }
    }

    fn remove(&mut self, key: &K, old: &PartialProxy) {
        let profile = old.profile();
        let Some(members) = self.by_profile.get_mut(&profile) else { return };
        members.all.remove(key);
        for (property, value) in &old.0 {
            let pair = (property.clone(), value.clone());
            if let Some(having) = members.by_property.get_mut(&pair) {
                having.remove(key);
                if having.is_empty() {
                    members.by_property.remove(&pair);
                }
            }
        }
        if members.all.is_empty() {
            self.by_profile.remove(&profile);
        }
    }

    /// Those that the policy may select.
    pub fn selected_by<'a>(&'a self, policy: &Policy) -> impl Iterator<Item = &'a K> {
        let required = requirements(policy.body.target.as_ref());
        let candidates = required.iter().flat_map(|required| {
            self.by_profile.iter().flat_map(|(profile, members)| match narrowest(required, profile) {
                None => members.all.iter().collect::<Vec<_>>(),
                Some((property, value)) => {
                    let having = members.by_property.get(&(property.clone(), value.clone()));
                    having.into_iter().flatten().collect()
                }
            })
        });
        let candidates: Vec<&K> = candidates.collect();
        candidates.into_iter().filter(move |key| {
            required.as_ref().is_some_and(|required| self.known.get(key).is_some_and(|known| known.may_have(required)))
        })
    }
}

impl<K> Default for Members<K> {
    fn default() -> Self {
        Self { all: BTreeSet::new(), by_property: HashMap::new() }
    }
}
