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
                match (expect, &old) {
                    (Expect::Absent, Some(_)) | (Expect::Version(_), None) => {
                        return Err(StoreError::Conflict(key.clone()));
                    }
                    (Expect::Version(version), Some(old)) if old.version != *version => {
                        return Err(StoreError::Conflict(key.clone()));
                    }
                    _ => (),
                }
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
                    version: old.as_ref().map_or(1, |old| old.version + 1),
                    status_version: old.as_ref().map_or(0, |old| old.status_version),
                    revision: self.revision,
                    created: old.as_ref().map_or(now, |old| old.created),
                    modified: now,
                };
                self.records.insert(key.clone(), record.clone());
                Ok(Some(record))
            }
            Write::PutStatus { key, status, expect } => {
                let record = self.records.get_mut(key).ok_or_else(|| StoreError::NotFound(key.clone()))?;
                let conflict = match expect {
                    Expect::Any => false,
                    Expect::Absent => record.status.is_some(),
                    Expect::Version(version) => record.status.is_none() || record.status_version != *version,
                };
                if conflict {
                    return Err(StoreError::Conflict(key.clone()));
                }
                if record.status.as_ref() != Some(status) {
                    self.revision += 1;
                    record.status = Some(status.clone());
                    record.status_version += 1;
                    record.revision = self.revision;
                }
                Ok(Some(record.clone()))
            }
            Write::Delete { key, expect } => {
                let old = self.records.get(key).ok_or_else(|| StoreError::NotFound(key.clone()))?;
                match expect {
                    Expect::Any => (),
                    Expect::Version(version) if old.version == *version => (),
                    Expect::Absent | Expect::Version(_) => return Err(StoreError::Conflict(key.clone())),
                }
                self.delete(key);
                Ok(None)
            }
        }
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
