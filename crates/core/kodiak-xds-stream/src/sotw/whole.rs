//! Clusters and listeners: every response holds the full set.
//!
//! What may not be sent yet stays in the set as it was: a changed listener in its last version, and a removed cluster until
//! listeners and routes no longer use it. Only a client that resumes with another version loses such clusters at once: it
//! does not report its resources.

use std::sync::Arc;

use imbl::ordmap::DiffItem;

use super::{Interest, version_of};
use crate::gate::Gate;
use crate::resource::{Resources, Version};
use crate::subscription::{Draft, Held};

#[derive(Debug, Default)]
pub(super) struct Whole {
    /// The set as it was last sent.
    sent: Resources,
}

impl Whole {
    /// The set to send if it differs from the last, or if `must` is set.
    pub(super) fn plan(&self, interest: &Interest, target: &Resources, gate: Gate<'_>, must: bool) -> Option<Draft> {
        let wanted = self.wanted(interest, target, gate);
        if !must && self.sent.diff(&wanted).next().is_none() {
            return None;
        }
        let is_new = |name: &Arc<str>| self.sent.get(name) != wanted.get(name);
        let changed = wanted.keys().filter(|name| is_new(name)).cloned().collect();
        Some(Draft { resources: wanted.values().cloned().collect(), changed, ..Draft::default() })
    }

    pub(super) fn differing<'a>(
        &'a self,
        interest: &'a Interest,
        target: &'a Resources,
    ) -> impl Iterator<Item = &'a Arc<str>> {
        let names = self.sent.diff(target).map(|item| match item {
            DiffItem::Add(name, _) | DiffItem::Remove(name, _) | DiffItem::Update { new: (name, _), .. } => name,
        });
        names.filter(|name| interest.covers(name))
    }

    pub(super) fn held(&self, name: &str) -> Held {
        self.sent.get(name).cloned().map_or(Held::Nothing, Held::Sent)
    }

    /// The set for the client, without differences that may not be sent yet.
    pub(super) fn wanted(&self, interest: &Interest, target: &Resources, gate: Gate<'_>) -> Resources {
        let all = interest.of(target);
        let mut wanted = all.clone();
        for item in self.sent.diff(&all) {
            match item {
                DiffItem::Add(name, _) if !gate.passes(name, target) => drop(wanted.remove(name)),
                DiffItem::Remove(name, old) | DiffItem::Update { old: (name, old), .. }
                    if !gate.passes(name, target) =>
                {
                    wanted.insert(name.clone(), old.clone());
                }
                DiffItem::Add(..) | DiffItem::Remove(..) | DiffItem::Update { .. } => (),
            }
        }
        wanted
    }

    pub(super) fn settle(&mut self, set: Resources) {
        self.sent = set;
    }

    /// A client that requests fewer names drops the rest by itself. Returns whether there was a rest.
    pub(super) fn narrow(&mut self, interest: &Interest) -> bool {
        let before = self.sent.len();
        if !interest.wildcard {
            self.sent = interest.of(&self.sent);
        }
        self.sent.len() != before
    }

    pub(super) fn version(&self) -> Version {
        version_of(&self.sent)
    }
}
