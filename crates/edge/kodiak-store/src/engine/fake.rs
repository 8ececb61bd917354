//! A back end for tests: without a disk, and with failures on demand.

use std::{
    collections::{BTreeMap, VecDeque},
    io,
    sync::{Arc, Mutex},
};

use async_trait::async_trait;
use kodiak_model::ResourceKey;

use super::Engine;
use crate::{
    error::StoreError,
    event::{Batch, Changes, Event, Head},
    leader::{CurrentTerm, Term},
    record::Record,
};

/// Result of a commit.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Outcome {
    CannotBegin,
    Lost,
    /// It is stored, but the answer is lost.
    StoredWithoutAnswer,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Fake {
    pub(crate) rows: Arc<Mutex<Rows>>,
    /// Results of the next commits; after that they succeed.
    pub(crate) failures: Arc<Mutex<VecDeque<Outcome>>>,
    next: Option<Outcome>,
    /// In which this instance leads.
    pub(crate) term: CurrentTerm,
}

#[async_trait]
impl Engine for Fake {
    async fn changes(&mut self, known: Head) -> Result<Option<Changes>, StoreError> {
        let rows = self.rows.lock().unwrap();
        Ok((!rows.head.is_at(known)).then(|| rows.changes(known)))
    }

    async fn begin(&mut self, known: Head) -> Result<Option<Changes>, StoreError> {
        self.next = self.failures.lock().unwrap().pop_front();
        if let Some(Outcome::CannotBegin) = self.next { Err(failure()) } else { self.changes(known).await }
    }

    async fn persist(&mut self, batch: Batch) -> Result<(), StoreError> {
        if let None | Some(Outcome::StoredWithoutAnswer) = self.next {
            self.rows.lock().unwrap().persist(&batch);
        }
        if self.next.is_none() { Ok(()) } else { Err(failure()) }
    }

    async fn leads(&mut self, term: Term) -> Result<bool, StoreError> {
        Ok(self.term.get() == Some(term))
    }

    async fn release(&mut self) {}
}

fn failure() -> StoreError {
    StoreError::back_end_failed("the disk", io::Error::other("it is on fire"))
}

/// Stored rows.
#[derive(Debug, Default)]
pub(crate) struct Rows {
    records: BTreeMap<ResourceKey, Arc<Record>>,
    tombstones: BTreeMap<u64, ResourceKey>,
    head: Head,
}

impl Rows {
    pub(crate) fn persist(&mut self, batch: &Batch) {
        for key in &batch.gone {
            self.records.remove(key);
        }
        for record in &batch.puts {
            self.records.insert(record.key.clone(), record.clone());
        }
        self.tombstones.extend(batch.tombstones.iter().cloned());
        self.tombstones.retain(|revision, _| *revision > batch.head.floor);
        self.head = batch.head;
    }

    pub(crate) fn changes(&self, known: Head) -> Changes {
        let complete = !self.head.extends(known);
        let after = if complete { 0 } else { known.revision };
        let puts = self.records.values().cloned().map(Event::Put);
        let deleted =
            self.tombstones.iter().map(|(revision, key)| Event::Deleted { revision: *revision, key: key.clone() });
        let mut events: Vec<_> = puts.chain(deleted).filter(|event| event.revision() > after).collect();
        events.sort_by_key(Event::revision);
        Changes { events, head: self.head, complete }
    }
}
