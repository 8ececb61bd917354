//! Applies a transaction to the state, or rejects it.
//!
//! Pure: the same state, transaction and time give the same result, for every back end.

mod limits;
#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use jiff::Timestamp;
use kodiak_model::ResourceKey;

use crate::{
    error::StoreError,
    event::Event,
    record::{Expect, Record, Transaction, Write},
    state::State,
};

/// A transaction that is accepted.
#[derive(Debug)]
pub(crate) struct Decision {
    /// The state after the transaction.
    pub(crate) state: State,
    /// Changes from the previous state. Empty when nothing changed.
    pub(crate) events: Vec<Event>,
    /// For each write, the record directly after it.
    pub(crate) records: Vec<Option<Record>>,
}

pub(crate) fn decide(state: &State, transaction: Transaction, now: Timestamp) -> Result<Decision, StoreError> {
    let mut draft = Draft { state: state.clone(), events: Vec::new(), now };
    let mut records = Vec::with_capacity(transaction.0.len());
    for write in transaction.0 {
        limits::check(&write)?;
        let record = match write {
            Write::Put { key, spec, labels, owner, expect } => Some(draft.put(key, spec, labels, owner, expect)?),
            Write::PutStatus { key, status, expect } => Some(draft.put_status(key, status, expect)?),
            Write::Delete { key, expect } => {
                draft.delete(key, expect)?;
                None
            }
            Write::Require { key, expect } => {
                draft.require(&key, expect)?;
                None
            }
            Write::RequireStatus { key, expect } => {
                draft.require_status(&key, expect)?;
                None
            }
        };
        records.push(record.map(|record| Record::clone(&record)));
    }
    Ok(Decision { state: draft.state, events: draft.events, records })
}

struct Draft {
    state: State,
    events: Vec<Event>,
    now: Timestamp,
}

impl Draft {
    fn put(
        &mut self,
        key: ResourceKey,
        spec: Arc<str>,
        labels: BTreeMap<String, String>,
        owner: Option<ResourceKey>,
        expect: Expect,
    ) -> Result<Arc<Record>, StoreError> {
        self.require(&key, expect)?;
        let old = self.state.get(&key);
        if let Some(owner) = &owner
            && self.state.get(owner).is_none()
        {
            return Err(StoreError::OwnerMissing { key, owner: owner.clone() });
        }
        let now = self.now;
        let record = match old {
            Some(old) if old.spec == spec && *old.labels == labels && old.owner == owner => return Ok(old.clone()),
            Some(old) => Record {
                spec,
                labels: Arc::new(labels),
                owner,
                version: old.version + 1,
                modified: now,
                ..Record::clone(old)
            },
            // No record of this key ever had these versions: each one comes with a revision of the store. So a record that
            // was deleted and created again is never mistaken for the one that a write was decided on.
            None => Record {
                key,
                spec,
                status: None,
                labels: Arc::new(labels),
                owner,
                version: self.state.revision() + 1,
                status_version: self.state.revision(),
                revision: 0,
                created: now,
                modified: now,
            },
        };
        Ok(self.store(record))
    }

    fn put_status(&mut self, key: ResourceKey, status: Arc<str>, expect: Expect) -> Result<Arc<Record>, StoreError> {
        let Some(old) = self.state.get(&key) else { return Err(StoreError::NotFound(key)) };
        self.require_status(&key, expect)?;
        if old.status.as_ref() == Some(&status) {
            return Ok(old.clone());
        }
        let record = Record { status: Some(status), status_version: old.status_version + 1, ..Record::clone(old) };
        Ok(self.store(record))
    }

    fn delete(&mut self, key: ResourceKey, expect: Expect) -> Result<(), StoreError> {
        let Some(old) = self.state.get(&key) else { return Err(StoreError::NotFound(key)) };
        self.require(&key, expect)?;
        // Owned records are deleted first: at no revision does a record outlive its owner.
        for key in with_all_owned(&self.state, old.key.clone()).into_iter().rev() {
            let revision = self.state.revision() + 1;
            self.record(Event::Deleted { revision, key });
        }
        Ok(())
    }

    /// Fails unless the record is the expected one.
    fn require(&self, key: &ResourceKey, expect: Expect) -> Result<(), StoreError> {
        let version = self.state.get(key).map(|record| record.version);
        if self.holds(key, expect, version) { Ok(()) } else { Err(StoreError::Conflict(key.clone())) }
    }

    fn require_status(&self, key: &ResourceKey, expect: Expect) -> Result<(), StoreError> {
        let record = self.state.get(key).filter(|record| record.status.is_some());
        let version = record.map(|record| record.status_version);
        if self.holds(key, expect, version) { Ok(()) } else { Err(StoreError::Conflict(key.clone())) }
    }

    fn holds(&self, key: &ResourceKey, expect: Expect, current: Option<u64>) -> bool {
        match expect {
            Expect::Any => true,
            Expect::Absent => current.is_none(),
            Expect::Version(expected) => current == Some(expected),
            Expect::VersionWithout { version, owned } => {
                current == Some(version) && !self.state.owned_by(key).any(|key| &*key.kind == owned)
            }
        }
    }

    fn store(&mut self, record: Record) -> Arc<Record> {
        let record = Arc::new(Record { revision: self.state.revision() + 1, ..record });
        self.record(Event::Put(record.clone()));
        record
    }

    fn record(&mut self, event: Event) {
        self.state.apply(&event);
        self.events.push(event);
    }
}

/// The record and all records that it owns, transitively, each after its owner. Ownership may be circular.
fn with_all_owned(state: &State, root: ResourceKey) -> Vec<ResourceKey> {
    let mut seen = BTreeSet::from([root.clone()]);
    let mut found = vec![root];
    let mut next = 0;
    while let Some(owner) = found.get(next) {
        let owned: Vec<_> = state.owned_by(owner).filter(|key| seen.insert((*key).clone())).cloned().collect();
        found.extend(owned);
        next += 1;
    }
    found
}
