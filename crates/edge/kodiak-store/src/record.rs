//! The words of the store: what is kept, what can be asked of it, what it answers.

mod debug;

use std::{collections::BTreeMap, sync::Arc};

use jiff::Timestamp;
use kodiak_model::ResourceKey;

/// One stored resource. Cheap to clone: all its texts are shared.
#[derive(Clone, PartialEq, Eq)]
pub struct Record {
    pub key: ResourceKey,
    /// A JSON object in canonical form: equal texts are equal specs.
    pub spec: Arc<str>,
    /// A JSON object.
    pub status: Option<Arc<str>>,
    pub labels: Arc<BTreeMap<String, String>>,
    /// Deleted with its owner.
    pub owner: Option<ResourceKey>,
    /// Counts the writes of spec and labels, from 1.
    pub version: u64,
    /// Counts the writes of status, from 0.
    pub status_version: u64,
    /// The store's revision at the last write of any part.
    pub revision: u64,
    pub created: Timestamp,
    /// The last write of spec or labels.
    pub modified: Timestamp,
}

/// What must be true of the present record for a write to happen; otherwise it is a conflict.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expect {
    Any,
    /// There is none yet (for a status: no status yet).
    Absent,
    /// It has this version (for a status: this status version).
    Version(u64),
}

#[derive(Clone, PartialEq, Eq)]
pub enum Write {
    /// Creates, or replaces spec, labels and owner and leaves the status alone. Silent when all three are equal.
    Put {
        key: ResourceKey,
        spec: Arc<str>,
        labels: BTreeMap<String, String>,
        owner: Option<ResourceKey>,
        expect: Expect,
    },
    /// Replaces the status of an existing record and nothing else. Silent when it is equal.
    PutStatus { key: ResourceKey, status: Arc<str>, expect: Expect },
    /// Deletes an existing record and, first, everything it owns, and so on.
    Delete { key: ResourceKey, expect: Expect },
}

/// Writes that happen together or not at all. Each sees what those before it did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Transaction(pub Vec<Write>);

impl From<Write> for Transaction {
    fn from(write: Write) -> Self {
        Self(vec![write])
    }
}

/// A transaction that is durable and visible.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    /// The store's revision after the transaction. The same as before it when nothing changed.
    pub revision: u64,
    /// For each write the record right after it; `None` for a delete.
    pub records: Vec<Option<Record>>,
}

/// One step in the history of the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    pub revision: u64,
    pub key: ResourceKey,
    pub kind: ChangeKind,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChangeKind {
    Put(Record),
    Deleted,
}
