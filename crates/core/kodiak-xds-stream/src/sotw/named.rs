//! Endpoints, routes and secrets: a response holds only resources that are new to the client.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::Interest;
use crate::ledger::{Held, Ledger};
use crate::resource::{Resources, Version};
use crate::subscription::Draft;

#[derive(Debug, Default)]
pub(super) struct NamedResources {
    ledger: Ledger,
    /// Names that must be answered even if unchanged.
    owed: BTreeSet<Arc<str>>,
}

impl NamedResources {
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    pub(super) fn owe(&mut self, names: impl IntoIterator<Item = Arc<str>>) {
        self.owed.extend(names);
    }

    pub(super) fn owe_none(&mut self) {
        self.owed.clear();
    }

    pub(super) fn owed_names(&self) -> usize {
        self.owed.len()
    }

    /// Answer to the requested names; empty if none of them exists.
    pub(super) fn owed(&self, target: &Resources) -> Option<Draft> {
        (!self.owed.is_empty()).then(|| self.draft(self.owed.iter(), target))
    }

    pub(super) fn plan(&self, interest: &Interest, target: &Resources, must: bool) -> Option<Draft> {
        let candidates = self.ledger.candidates(target);
        let differs = |name: &Arc<str>| {
            let version = target.get(name).map(|resource| Held::Version(resource.version));
            version.is_some_and(|version| version != self.ledger.held(name))
        };
        let differing = candidates.into_iter().filter(|name| interest.covers(name) && differs(name));
        let names: BTreeSet<_> = differing.chain(&self.owed).cloned().collect();
        (must || !names.is_empty()).then(|| self.draft(names.iter(), target))
    }

    /// The client was sent all its resources of `target`, or only the owed names.
    pub(super) fn sent(&mut self, all: bool, target: &Resources) {
        let owed = std::mem::take(&mut self.owed);
        if all {
            self.ledger.settle(target, BTreeMap::new());
            return;
        }
        for name in owed {
            let held = target.get(&name).map_or(Held::Nothing, |resource| Held::Version(resource.version));
            self.ledger.note(name, held);
        }
    }

    pub(super) fn version(&self, interest: &Interest) -> Version {
        let covered = |name: &str| interest.wildcard || interest.names.contains(name);
        Version::of_set(self.ledger.contents().into_iter().filter(|(name, _)| covered(name)))
    }

    fn draft<'a>(&self, names: impl Iterator<Item = &'a Arc<str>>, target: &Resources) -> Draft {
        let resources: Vec<_> = names.filter_map(|name| target.get(name).cloned()).collect();
        let is_new = |version: Version, name: &str| self.ledger.held(name) != Held::Version(version);
        let new = resources.iter().filter(|resource| is_new(resource.version, &resource.name));
        let changed = new.map(|resource| resource.name.clone()).collect();
        Draft { resources, changed, ..Draft::default() }
    }
}
