//! Public types: records, writes, transactions, changes.

mod debug;

use std::{collections::BTreeMap, sync::Arc};

use jiff::Timestamp;
use kodiak_model::ResourceKey;
use kodiak_world::{Resource, Stored};

/// One stored resource. Cheap to clone: its texts are shared.
#[derive(Clone, PartialEq, Eq)]
pub struct Record {
    pub key: ResourceKey,
    /// A JSON object in canonical form: equal texts are equal specs.
    pub spec: Arc<str>,
    /// A JSON object.
    pub status: Option<Arc<str>>,
    pub labels: Arc<BTreeMap<String, String>>,
    /// The record is deleted with its owner.
    pub owner: Option<ResourceKey>,
    /// Number of writes of spec and labels, from 1.
    pub version: u64,
    /// Number of writes of status, from 0.
    pub status_version: u64,
    /// Store revision at the last write of any part.
    pub revision: u64,
    pub created: Timestamp,
    /// Time of the last write of spec or labels.
    pub modified: Timestamp,
}

impl Record {
    /// As the world decodes it.
    pub(crate) fn stored(&self) -> Stored<'_> {
        Stored {
            key: &self.key,
            labels: &self.labels,
            created: self.created,
            version: self.version,
            status_version: self.status_version,
            revision: self.revision,
            spec: &self.spec,
            status: self.status.as_ref(),
        }
    }
}

/// Precondition of a write on the current record; otherwise it is a conflict.
///
/// A write states the record that it was decided on ([`Snapshot::expect`], [`Snapshot::expect_status`]). On a conflict
/// its author reads again, and decides everything again.
///
/// [`Snapshot::expect`]: crate::Snapshot::expect
/// [`Snapshot::expect_status`]: crate::Snapshot::expect_status
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expect {
    /// Whatever is there is replaced. For tests: `cargo xtask tidy` refuses it in shipped code.
    Any,
    /// There is none yet (for a status: no status yet).
    Absent,
    /// It has this version (for a status: this status version).
    Version(u64),
    /// It has this version, and owns no record of this kind.
    VersionWithout { version: u64, owned: &'static str },
}

#[derive(Clone, PartialEq, Eq)]
pub enum Write {
    /// Creates a record, or replaces its spec, labels and owner; the status stays. No change when all three are equal.
    Put {
        key: ResourceKey,
        spec: Arc<str>,
        labels: BTreeMap<String, String>,
        owner: Option<ResourceKey>,
        expect: Expect,
    },
    /// Replaces only the status of an existing record. No change when it is equal.
    PutStatus { key: ResourceKey, status: Arc<str>, expect: Expect },
    /// Deletes an existing record, after all records that it owns, transitively.
    Delete { key: ResourceKey, expect: Expect },
    /// Changes nothing: the transaction was decided on this record too, and is a conflict when it is another one now.
    Require { key: ResourceKey, expect: Expect },
    /// The same for the status of a record, which may be missing like its status.
    RequireStatus { key: ResourceKey, expect: Expect },
}

impl Write {
    pub fn key(&self) -> &ResourceKey {
        match self {
            Self::Put { key, .. }
            | Self::PutStatus { key, .. }
            | Self::Delete { key, .. }
            | Self::Require { key, .. }
            | Self::RequireStatus { key, .. } => key,
        }
    }
}

/// Atomic writes. Each sees the effects of those before it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Transaction(pub Vec<Write>);

impl From<Write> for Transaction {
    fn from(write: Write) -> Self {
        Self(vec![write])
    }
}

/// Result of a durable and visible transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    /// Store revision after the transaction. Unchanged when the transaction changed nothing.
    pub revision: u64,
    /// For each write, the record directly after it; `None` for a delete or a requirement.
    pub records: Vec<Option<Record>>,
}

/// One change in the history of the store.
#[derive(Debug, Clone)]
pub struct StoreChange {
    pub revision: u64,
    pub key: ResourceKey,
    pub kind: ChangeKind,
    /// The record, decoded; `None` when it was deleted.
    pub resource: Option<Arc<Resource>>,
}

/// The resource follows from the record.
impl PartialEq for StoreChange {
    fn eq(&self, other: &Self) -> bool {
        let Self { revision, key, kind, resource: _ } = self;
        (revision, key, kind) == (&other.revision, &other.key, &other.kind)
    }
}

impl Eq for StoreChange {}

impl StoreChange {
    /// Without the text.
    pub fn typed(&self) -> kodiak_world::Change {
        kodiak_world::Change { key: self.key.clone(), revision: self.revision, resource: self.resource.clone() }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChangeKind {
    Put(Record),
    Deleted,
}
