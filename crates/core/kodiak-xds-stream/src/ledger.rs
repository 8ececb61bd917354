//! What the client was sent.
//!
//! Almost always that is what some snapshot says, so it is kept as that snapshot (which is shared) and a few exceptions.
//! A proxy with a thousand resources then costs no thousand entries, and a change costs what changed.

use std::collections::BTreeMap;
use std::sync::Arc;

use imbl::ordmap::DiffItem;

use crate::resource::{Resources, Version};

/// What the client has under a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Held {
    Nothing,
    Version(Version),
    /// It has something, in a version that is not ours.
    Foreign,
}

#[derive(Debug, Default)]
pub(crate) struct Ledger {
    base: Resources,
    except: BTreeMap<Arc<str>, Held>,
}

impl Ledger {
    pub(crate) fn held(&self, name: &str) -> Held {
        let from_base = || self.base.get(name).map_or(Held::Nothing, |resource| Held::Version(resource.version));
        self.except.get(name).copied().unwrap_or_else(from_base)
    }

    /// Names under which `target` may differ from what the client has; all others are equal. Some come twice.
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

    /// The client was sent all of `target`, and still has `also`, which is not in it.
    pub(crate) fn settle(&mut self, target: &Resources, also: BTreeMap<Arc<str>, Held>) {
        self.base = target.clone();
        self.except = also;
    }

    /// All that the client has in a version of ours.
    pub(crate) fn contents(&self) -> BTreeMap<&str, Version> {
        let names = self.base.keys().chain(self.except.keys()).map(|name| &**name);
        let held = names.map(|name| (name, self.held(name)));
        held.filter_map(|(name, held)| if let Held::Version(version) = held { Some((name, version)) } else { None })
            .collect()
    }

    /// Takes it that the client may have dropped everything. What it may have and should not have is still to be
    /// removed; also under names that it no longer asks for, because a response with them may be on the way.
    pub(crate) fn forget(&mut self, target: &Resources) {
        let owed = self.gone(target).map(|(name, _)| (name, Held::Foreign)).collect();
        self.settle(&Resources::default(), owed);
    }

    /// What the client has and `target` has not.
    pub(crate) fn gone(&self, target: &Resources) -> impl Iterator<Item = (Arc<str>, Held)> {
        let removed = self.base.diff(target).filter_map(|item| match item {
            DiffItem::Remove(name, _) => Some(name),
            DiffItem::Add(..) | DiffItem::Update { .. } => None,
        });
        let names = removed.chain(self.except.keys().filter(|name| !target.contains_key(*name)));
        names.map(|name| (name.clone(), self.held(name))).filter(|(_, held)| *held != Held::Nothing)
    }
}
