//! Resources that the client was sent.
//!
//! They are almost always those of some snapshot, so they are stored as that shared snapshot and a few exceptions. A
//! proxy with a thousand resources does not cost a thousand entries, and a change costs only the difference.

use std::collections::BTreeMap;
use std::sync::Arc;

use imbl::ordmap::DiffItem;

use crate::resource::{Resources, Version};
use crate::subscription::Held;

#[derive(Debug, Default)]
pub(crate) struct Ledger {
    base: Resources,
    except: BTreeMap<Arc<str>, Held>,
}

impl Ledger {
    pub(crate) fn held(&self, name: &str) -> Held {
        let from_base = || self.base.get(name).cloned().map_or(Held::Nothing, Held::Sent);
        self.except.get(name).cloned().unwrap_or_else(from_base)
    }

    /// Names for which `target` may differ from the client's state; all others are equal. May contain duplicates.
    pub(crate) fn candidates<'a>(&'a self, target: &'a Resources) -> impl Iterator<Item = &'a Arc<str>> {
        let differing = self.base.diff(target).map(|item| match item {
            DiffItem::Add(name, _) | DiffItem::Remove(name, _) | DiffItem::Update { new: (name, _), .. } => name,
        });
        differing.chain(self.except.keys())
    }

    pub(crate) fn note(&mut self, name: Arc<str>, held: Held) {
        self.except.remove(&name);
        if self.held(&name) != held {
            self.except.insert(name, held);
        }
    }

    /// The client was sent all of `target`, except for these.
    pub(crate) fn settle(&mut self, target: &Resources, except: BTreeMap<Arc<str>, Held>) {
        self.base = target.clone();
        self.except = except;
    }

    /// All resources that the client has in a known version.
    pub(crate) fn contents(&self) -> BTreeMap<&str, Version> {
        let names = self.base.keys().chain(self.except.keys()).map(|name| &**name);
        let held = names.map(|name| (name, self.held(name)));
        held.filter_map(|(name, held)| Some((name, held.version()?))).collect()
    }

    /// Assumes that the client may have dropped everything. Resources that it may still have and should not are still
    /// removed; also under names that it no longer requests, because a response with them may be in flight.
    pub(crate) fn forget(&mut self, target: &Resources) {
        let gone = self.candidates(target).filter(|name| !target.contains_key(*name));
        let held = gone.filter(|name| self.held(name) != Held::Nothing);
        let owed = held.map(|name| (name.clone(), Held::Foreign)).collect();
        self.settle(&Resources::default(), owed);
    }
}
