//! Internal form of changes, and batches of them for back ends.

use std::{collections::BTreeMap, sync::Arc};

use kodiak_model::ResourceKey;

use crate::{
    id::Id,
    record::{ChangeKind, Record, StoreChange},
    state::State,
};

/// One change. Unlike the public [`StoreChange`] it shares the record with the state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Event {
    Put(Arc<Record>),
    Deleted { revision: u64, key: ResourceKey },
}

impl Event {
    pub(crate) fn revision(&self) -> u64 {
        match self {
            Self::Put(record) => record.revision,
            Self::Deleted { revision, .. } => *revision,
        }
    }

    pub(crate) fn key(&self) -> &ResourceKey {
        match self {
            Self::Put(record) => &record.key,
            Self::Deleted { key, .. } => key,
        }
    }

    pub(crate) fn to_change(&self, state: &State) -> StoreChange {
        let (kind, resource) = match self {
            Self::Put(record) => (ChangeKind::Put(Record::clone(record)), Some(state.resource(record))),
            Self::Deleted { .. } => (ChangeKind::Deleted, None),
        };
        StoreChange { revision: self.revision(), key: self.key().clone(), kind, resource }
    }
}

/// Changes that a back end makes durable in one transaction: only the final state of each key.
#[derive(Debug)]
pub(crate) struct Batch {
    pub(crate) puts: Vec<Arc<Record>>,
    /// Keys without a record now. They may never have had a stored one.
    pub(crate) gone: Vec<ResourceKey>,
    /// Deletions to store, so that watches can resume before them.
    pub(crate) tombstones: Vec<(u64, ResourceKey)>,
    /// Head of the store after this batch.
    pub(crate) head: Head,
}

impl Batch {
    /// Whether the batch only probes that writes succeed.
    pub(crate) fn is_empty(&self) -> bool {
        self.puts.is_empty() && self.gone.is_empty() && self.tombstones.is_empty()
    }

    pub(crate) fn new(events: &[Event], head: Head) -> Self {
        let mut batch = Self { puts: Vec::new(), gone: Vec::new(), tombstones: Vec::new(), head };
        let mut last = BTreeMap::new();
        for event in events {
            last.insert(event.key(), event);
            if let Event::Deleted { revision, key } = event
                && *revision > head.floor
            {
                batch.tombstones.push((*revision, key.clone()));
            }
        }
        for (key, event) in last {
            match event {
                Event::Put(record) => batch.puts.push(record.clone()),
                Event::Deleted { .. } => batch.gone.push(key.clone()),
            }
        }
        batch
    }
}

/// Revision of a back end, and the history it belongs to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) revision: u64,
    /// Tombstones up to this revision are dropped.
    pub(crate) floor: u64,
    /// Identifies the data set. A restore creates a new one.
    pub(crate) history: Id,
    /// Identifies the last commit. A revision alone does not distinguish two histories with a common start, as after a
    /// failover that lost commits.
    pub(crate) commit: Id,
}

impl Head {
    /// Whether a reader at `revision` of this history can catch up by single changes. Otherwise a tombstone that it
    /// needs may have been dropped.
    pub(crate) fn continues(self, revision: u64) -> bool {
        (self.floor..=self.revision).contains(&revision)
    }

    /// Whether both are the same commit of the same history.
    pub(crate) fn is_at(self, other: Self) -> bool {
        (self.history, self.revision, self.commit) == (other.history, other.revision, other.commit)
    }

    /// Whether the changes beyond `known` are enough, for a back end that stores only its last commit: a lower
    /// revision, or the same one by another commit, is another history.
    pub(crate) fn extends(self, known: Self) -> bool {
        known.revision > 0
            && self.history == known.history
            && self.continues(known.revision)
            && (self.revision > known.revision || self.commit == known.commit)
    }
}

/// Changes in a back end beyond a revision: the last event of each key, in order of revision.
#[derive(Debug)]
pub(crate) struct Changes {
    pub(crate) events: Vec<Event>,
    pub(crate) head: Head,
    /// The events are all records and tombstones of the back end: memory drops all others.
    pub(crate) complete: bool,
}
