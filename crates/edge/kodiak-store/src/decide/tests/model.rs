//! Reference model of transactions.

use std::{collections::BTreeMap, sync::Arc};

use jiff::Timestamp;
use kodiak_model::ResourceKey;

use crate::{
    error::StoreError,
    record::{Expect, Record, Transaction, Write},
    state::State,
};

#[derive(Debug, Clone, Default)]
pub(super) struct Model {
    records: BTreeMap<ResourceKey, Record>,
    revision: u64,
}

impl Model {
    pub(super) fn transaction(
        mut self,
        transaction: &Transaction,
        now: Timestamp,
    ) -> Result<(Self, Vec<Option<Record>>), StoreError> {
        let records = transaction.0.iter().map(|write| self.write(write, now)).collect::<Result<_, _>>()?;
        Ok((self, records))
    }

    fn write(&mut self, write: &Write, now: Timestamp) -> Result<Option<Record>, StoreError> {
        match write {
            Write::Put { key, spec, labels, owner, expect } => {
                let old = self.records.get(key).cloned();
                self.require(key, *expect)?;
                if let Some(owner) = owner
                    && !self.records.contains_key(owner)
                {
                    return Err(StoreError::OwnerMissing { key: key.clone(), owner: owner.clone() });
                }
                let same =
                    old.as_ref().is_some_and(|old| old.spec == *spec && *old.labels == *labels && old.owner == *owner);
                if same {
                    return Ok(old);
                }
                self.revision += 1;
                let record = Record {
                    key: key.clone(),
                    spec: spec.clone(),
                    status: old.as_ref().and_then(|old| old.status.clone()),
                    labels: Arc::new(labels.clone()),
                    owner: owner.clone(),
                    version: old.as_ref().map_or(self.revision, |old| old.version + 1),
                    status_version: old.as_ref().map_or(self.revision - 1, |old| old.status_version),
                    revision: self.revision,
                    created: old.as_ref().map_or(now, |old| old.created),
                    modified: now,
                };
                self.records.insert(key.clone(), record.clone());
                Ok(Some(record))
            }
            Write::PutStatus { key, status, expect } => {
                self.records.get(key).ok_or_else(|| StoreError::NotFound(key.clone()))?;
                self.require_status(key, *expect)?;
                let record = self.records.get_mut(key).expect("it was there");
                if record.status.as_ref() != Some(status) {
                    self.revision += 1;
                    record.status = Some(status.clone());
                    record.status_version += 1;
                    record.revision = self.revision;
                }
                Ok(Some(record.clone()))
            }
            Write::Delete { key, expect } => {
                self.records.get(key).ok_or_else(|| StoreError::NotFound(key.clone()))?;
                self.require(key, *expect)?;
                self.delete(key);
                Ok(None)
            }
            Write::Require { key, expect } => self.require(key, *expect).map(|()| None),
            Write::RequireStatus { key, expect } => self.require_status(key, *expect).map(|()| None),
        }
    }

    fn owned(&self, key: &ResourceKey) -> impl Iterator<Item = &ResourceKey> {
        self.records.values().filter(move |record| record.owner.as_ref() == Some(key)).map(|record| &record.key)
    }

    fn require(&self, key: &ResourceKey, expect: Expect) -> Result<(), StoreError> {
        self.holds(key, expect, self.records.get(key).map(|record| record.version))
    }

    fn require_status(&self, key: &ResourceKey, expect: Expect) -> Result<(), StoreError> {
        let record = self.records.get(key);
        self.holds(key, expect, record.and_then(|record| record.status.as_ref().map(|_| record.status_version)))
    }

    fn holds(&self, key: &ResourceKey, expect: Expect, version: Option<u64>) -> Result<(), StoreError> {
        let holds = match expect {
            Expect::Any => true,
            Expect::Absent => version.is_none(),
            Expect::Version(expected) => version == Some(expected),
            Expect::VersionWithout { version: expected, owned } => {
                version == Some(expected) && self.owned(key).all(|key| &*key.kind != owned)
            }
        };
        if holds { Ok(()) } else { Err(StoreError::Conflict(key.clone())) }
    }

    fn delete(&mut self, key: &ResourceKey) {
        self.revision += 1;
        self.records.remove(key);
        while let Some(orphan) = self.records.values().find(|record| record.owner.as_ref() == Some(key)) {
            let orphan = orphan.key.clone();
            self.delete(&orphan);
        }
    }

    /// Compares the state and its indexes with the model.
    pub(super) fn check(&self, state: &State) {
        assert_eq!(state.revision(), self.revision);
        assert!(super::records(state).eq(self.records.values()), "{state:?}\n{self:?}");
        let mut counts = BTreeMap::new();
        for record in self.records.values() {
            *counts.entry(record.key.kind.clone()).or_insert(0) += 1;
            assert!(record.owner.as_ref().is_none_or(|owner| self.records.contains_key(owner)), "no orphans");
        }
        assert!(state.counts().iter().eq(counts.iter()));
        assert_eq!(state.len(), self.records.len());
        for key in self.records.keys() {
            let owned = self.records.values().filter(|record| record.owner.as_ref() == Some(key));
            assert!(state.owned_by(key).eq(owned.map(|record| &record.key)));
        }
    }
}
