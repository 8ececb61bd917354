//! Endpoints, routes and secrets: a response holds only resources that are new to the client.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::Interest;
use crate::gate::Gate;
use crate::ledger::Ledger;
use crate::resource::{Resources, Version};
use crate::subscription::{Draft, Held};

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

    /// A client that adds a name does not have the resource.
    pub(super) fn subscribe(&mut self, names: Vec<Arc<str>>) {
        for name in &names {
            self.ledger.note(name.clone(), Held::Nothing);
        }
        self.owe(names);
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

    pub(super) fn held(&self, name: &str) -> Held {
        self.ledger.held(name)
    }

    /// Removed resources are not among them: this protocol cannot remove them.
    pub(super) fn differing<'a>(
        &'a self,
        interest: &'a Interest,
        target: &'a Resources,
    ) -> impl Iterator<Item = &'a Arc<str>> {
        let differs = |name: &Arc<str>| {
            target.get(name).is_some_and(|resource| self.ledger.held(name).version() != Some(resource.version))
        };
        self.ledger.candidates(target).filter(move |name| interest.covers(name) && differs(name))
    }

    pub(super) fn plan(&self, interest: &Interest, target: &Resources, gate: Gate<'_>, must: bool) -> Option<Draft> {
        let sendable = self.differing(interest, target).filter(|name| gate.passes(name, target));
        let names: BTreeSet<_> = sendable.chain(&self.owed).cloned().collect();
        (must || !names.is_empty()).then(|| self.draft(names.iter(), target))
    }

    /// The client was sent what it waits for, and what passes an open gate.
    pub(super) fn sent(&mut self, interest: &Interest, target: &Resources, gate: Gate<'_>) {
        let owed = std::mem::take(&mut self.owed);
        if gate.is_open() {
            let left =
                self.differing(interest, target).filter(|name| !gate.passes(name, target) && !owed.contains(*name));
            let left = left.map(|name| (name.clone(), self.ledger.held(name))).collect();
            self.ledger.settle(target, left);
            return;
        }
        for name in owed {
            let held = target.get(&name).cloned().map_or(Held::Nothing, Held::Sent);
            self.ledger.note(name, held);
        }
    }

    pub(super) fn version(&self, interest: &Interest) -> Version {
        let covered = |name: &str| interest.wildcard || interest.names.contains(name);
        Version::of_set(self.ledger.contents().into_iter().filter(|(name, _)| covered(name)))
    }

    fn draft<'a>(&self, names: impl Iterator<Item = &'a Arc<str>>, target: &Resources) -> Draft {
        let resources: Vec<_> = names.filter_map(|name| target.get(name).cloned()).collect();
        let is_new = |version: Version, name: &str| self.ledger.held(name).version() != Some(version);
        let new = resources.iter().filter(|resource| is_new(resource.version, &resource.name));
        let changed = new.map(|resource| resource.name.clone()).collect();
        Draft { resources, changed, ..Draft::default() }
    }
}
