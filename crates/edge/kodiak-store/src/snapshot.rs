//! A consistent view of the store at one revision.

use std::{collections::BTreeMap, fmt, sync::Arc};

use kodiak_model::ResourceKey;
use kodiak_world::World;

use crate::{
    decide::decide,
    error::StoreError,
    record::{Expect, Record, Transaction},
    row,
    state::State,
};

/// Immutable, and cheap to take. Holding one keeps its records in memory.
#[derive(Clone)]
pub struct Snapshot(Arc<State>);

impl Snapshot {
    pub(crate) fn new(state: Arc<State>) -> Self {
        Self(state)
    }

    /// The same records as typed values.
    pub fn world(&self) -> &World {
        self.0.world()
    }

    /// The store as it would be after a transaction, or why that would be refused. Nothing is stored.
    pub fn with(&self, transaction: Transaction) -> Result<Self, StoreError> {
        let decision = decide(&self.0, transaction, row::now())?;
        Ok(Self::new(Arc::new(decision.state)))
    }

    /// A watch from this revision returns all changes after this snapshot.
    pub fn revision(&self) -> u64 {
        self.0.revision()
    }

    pub fn get(&self, key: &ResourceKey) -> Option<&Record> {
        self.0.get(key).map(AsRef::as_ref)
    }

    /// Precondition of a write that was decided on this snapshot: the record is still the same one, or still absent.
    pub fn expect(&self, key: &ResourceKey) -> Expect {
        self.get(key).map_or(Expect::Absent, |record| Expect::Version(record.version))
    }

    /// Precondition of a status that was decided on this snapshot. Other statuses conflict, other specs do not.
    pub fn expect_status(&self, key: &ResourceKey) -> Expect {
        let old = self.get(key).filter(|record| record.status.is_some());
        old.map_or(Expect::Absent, |record| Expect::Version(record.status_version))
    }

    /// All records, ordered by kind, mesh, name.
    pub fn iter(&self) -> impl Iterator<Item = &Record> + use<'_> {
        self.0.records_from(ResourceKey::global("", ""))
    }

    /// The records of a kind, ordered by mesh, name.
    pub fn list(&self, kind: &str) -> impl Iterator<Item = &Record> + use<'_> {
        let start = ResourceKey::global(kind, "");
        let kind = start.kind.clone();
        self.0.records_from(start).take_while(move |record| record.key.kind == kind)
    }

    /// The records of a kind in one mesh, ordered by name.
    pub fn list_in(&self, kind: &str, mesh: &str) -> impl Iterator<Item = &Record> + use<'_> {
        let start = ResourceKey::in_mesh(kind, mesh, "");
        let (kind, mesh) = (start.kind.clone(), start.mesh.clone());
        self.0.records_from(start).take_while(move |record| record.key.kind == kind && record.key.mesh == mesh)
    }

    /// Records that are deleted with this one; directly owned ones only.
    pub fn owned_by(&self, key: &ResourceKey) -> impl Iterator<Item = &Record> + use<'_> {
        self.0.owned_by(key).filter_map(|key| self.get(key))
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number of records of each kind. Maintained by every write, never counted.
    pub fn counts(&self) -> BTreeMap<Arc<str>, usize> {
        self.0.counts().iter().map(|(kind, count)| (kind.clone(), *count)).collect()
    }
}

/// Hides the contents.
impl fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Snapshot").field("revision", &self.revision()).field("len", &self.len()).finish()
    }
}
