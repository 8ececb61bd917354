//! The whole content of the store as one immutable value.
//!
//! A clone costs a few reference counts, and two values share their common parts, so that a snapshot, the published
//! value and the one of a transaction can exist side by side.

use std::sync::Arc;

use imbl::{OrdMap, OrdSet};
use kodiak_model::ResourceKey;

use crate::{
    event::{Changes, Event, Head},
    id::Id,
    record::Record,
};

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct State {
    head: Head,
    records: OrdMap<ResourceKey, Arc<Record>>,
    /// The same records, by revision.
    changed: OrdMap<u64, Arc<Record>>,
    /// Tombstones.
    deleted: OrdMap<u64, ResourceKey>,
    /// Pairs of owner and owned.
    owned: OrdSet<(ResourceKey, ResourceKey)>,
    /// Records per kind, without zeros.
    counts: OrdMap<Arc<str>, usize>,
}

/// Reads.
impl State {
    pub(crate) fn head(&self) -> Head {
        self.head
    }

    pub(crate) fn revision(&self) -> u64 {
        self.head.revision
    }

    pub(crate) fn len(&self) -> usize {
        self.records.len()
    }

    pub(crate) fn get(&self, key: &ResourceKey) -> Option<&Arc<Record>> {
        self.records.get(key)
    }

    /// In the order of their keys.
    pub(crate) fn records(&self) -> impl Iterator<Item = &Arc<Record>> + use<'_> {
        self.records.values()
    }

    pub(crate) fn counts(&self) -> &OrdMap<Arc<str>, usize> {
        &self.counts
    }

    /// Tombstones, in the order of their revisions.
    pub(crate) fn tombstones(&self) -> impl Iterator<Item = (u64, &ResourceKey)> + use<'_> {
        self.deleted.iter().map(|(revision, key)| (*revision, key))
    }

    /// The records from `start` on, in the order of their keys.
    pub(crate) fn records_from(&self, start: ResourceKey) -> impl Iterator<Item = &Record> + use<'_> {
        self.records.range(start..).map(|(_, record)| record.as_ref())
    }

    pub(crate) fn owned_by(&self, owner: &ResourceKey) -> impl Iterator<Item = &ResourceKey> + use<'_> {
        let owner = owner.clone();
        let start = (owner.clone(), ResourceKey::global("", ""));
        self.owned.range(start..).take_while(move |(of, _)| *of == owner).map(|(_, key)| key)
    }

    /// The first change after `seen`, where a deletion counts only if it is also after `settled`.
    pub(crate) fn first_after(&self, seen: u64, settled: u64) -> Option<Event> {
        let changed = self.changed.range(seen + 1..).next();
        let deleted = self.deleted.range(seen.max(settled) + 1..).next();
        match (changed, deleted) {
            (Some((put, _)), Some((gone, key))) if gone < put => Some(deleted_at(*gone, key)),
            (Some((_, record)), _) => Some(Event::Put(record.clone())),
            (None, Some((gone, key))) => Some(deleted_at(*gone, key)),
            (None, None) => None,
        }
    }
}

/// Switching histories.
impl State {
    /// The changes from this value to another one: deletions, owned records before their owner, then puts in the order
    /// of their revisions.
    pub(crate) fn difference(&self, next: &Self) -> Vec<Event> {
        let mut gone: Vec<_> = self.records.values().filter(|record| !next.records.contains_key(&record.key)).collect();
        gone.sort_by_cached_key(|record| std::cmp::Reverse(self.depth(record)));
        let revision = next.revision();
        let deleted = gone.into_iter().map(|record| deleted_at(revision, &record.key));
        let put = next.changed.values().filter(|record| self.records.get(&record.key) != Some(record));
        deleted.chain(put.map(|record| Event::Put(record.clone()))).collect()
    }

    /// Number of owners above a record. Ownership may be circular.
    fn depth(&self, record: &Record) -> usize {
        const DEEPEST: usize = 16;
        let owner = |record: &Record| record.owner.as_ref().and_then(|owner| self.records.get(owner));
        std::iter::successors(owner(record), |record| owner(record)).take(DEEPEST).count()
    }
}

/// Updates. Nothing is validated here: `decide` did, or the instance that stored it.
impl State {
    pub(crate) fn apply(&mut self, event: &Event) {
        match event {
            Event::Put(record) => self.put(record),
            Event::Deleted { revision, key } => self.delete(*revision, key),
        }
        self.head.revision = self.head.revision.max(event.revision());
    }

    /// Applies changes from a back end.
    pub(crate) fn apply_changes(&mut self, changes: &Changes) {
        if changes.complete {
            *self = Self::default();
        }
        for event in &changes.events {
            self.apply(event);
        }
        self.forget_up_to(changes.head.floor);
        self.head = Head { floor: self.head.floor, ..changes.head };
    }

    /// Sets the ID of the commit that makes this value durable.
    pub(crate) fn stamp(&mut self, commit: Id) {
        self.head.commit = commit;
    }

    /// Drops all but the newest `capacity` tombstones.
    pub(crate) fn trim(&mut self, capacity: usize) {
        while self.deleted.len() > capacity
            && let Some((oldest, _)) = self.deleted.get_min()
        {
            self.forget_up_to(*oldest);
        }
    }

    fn forget_up_to(&mut self, floor: u64) {
        while let Some((oldest, _)) = self.deleted.get_min().filter(|(oldest, _)| *oldest <= floor).cloned() {
            self.deleted.remove(&oldest);
        }
        self.head.floor = self.head.floor.max(floor);
    }

    fn put(&mut self, record: &Arc<Record>) {
        if let Some(old) = self.records.insert(record.key.clone(), record.clone()) {
            self.unlink(&old);
        }
        self.changed.insert(record.revision, record.clone());
        if let Some(owner) = &record.owner {
            self.owned.insert((owner.clone(), record.key.clone()));
        }
        *self.counts.entry(record.key.kind.clone()).or_insert(0) += 1;
    }

    fn delete(&mut self, revision: u64, key: &ResourceKey) {
        if let Some(old) = self.records.remove(key) {
            self.unlink(&old);
        }
        self.deleted.insert(revision, key.clone());
    }

    /// Removes a record that is no longer in `records` from the indexes.
    fn unlink(&mut self, old: &Record) {
        self.changed.remove(&old.revision);
        if let Some(owner) = &old.owner {
            self.owned.remove(&(owner.clone(), old.key.clone()));
        }
        match self.counts.get_mut(&old.key.kind) {
            Some(count) if *count > 1 => *count -= 1,
            _ => drop(self.counts.remove(&old.key.kind)),
        }
    }
}

fn deleted_at(revision: u64, key: &ResourceKey) -> Event {
    Event::Deleted { revision, key: key.clone() }
}
