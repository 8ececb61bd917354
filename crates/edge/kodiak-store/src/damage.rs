//! Damaged entries of a store file, and their error.

use std::{fmt, path::Path};

use crate::{engine::EntryDamage, error::StoreError};

/// A damaged entry.
#[derive(Debug, Clone)]
pub struct Damaged {
    /// Kind, mesh and name of a record; a description otherwise.
    pub what: String,
    pub problem: String,
    /// The entry itself is intact, but its seal key is missing or another one.
    pub(crate) seal: Option<Box<StoreError>>,
}

impl Damaged {
    pub(crate) fn record(what: String, damage: EntryDamage) -> Self {
        Self { what, problem: damage.to_string(), seal: None }
    }

    /// Its checksum matches, but it cannot be decoded.
    pub(crate) fn unreadable(what: String, error: StoreError) -> Self {
        let is_seal = matches!(error, StoreError::Sealed(_) | StoreError::WrongSeal(_));
        Self { what, problem: error.with_causes(), seal: is_seal.then(|| Box::new(error)) }
    }

    pub(crate) fn tombstone(revision: u64, damage: EntryDamage) -> Self {
        Self { what: format!("the deletion at revision {revision}"), problem: damage.to_string(), seal: None }
    }

    pub(crate) fn head(damage: EntryDamage) -> Self {
        Self { what: "the head (revision and history)".to_owned(), problem: damage.to_string(), seal: None }
    }

    pub(crate) fn missing(expected: u64, found: u64) -> Self {
        let problem = if expected == found {
            "the checksums of its records do not add up: one was replaced by an earlier version of itself".to_owned()
        } else {
            format!("it has {found} records and deletions instead of {expected}")
        };
        Self { what: "the file".to_owned(), problem, seal: None }
    }
}

impl fmt::Display for Damaged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { what, problem, seal: _ } = self;
        write!(f, "{what}: {problem}")
    }
}

/// Fails if anything is damaged. A seal that does not open is an error of its own: the file is intact.
pub(crate) fn refuse(path: &Path, damaged: &[Damaged]) -> Result<(), StoreError> {
    match damaged.iter().find(|damaged| damaged.seal.is_none()) {
        Some(first) => {
            let more = damaged.len() - 1;
            Err(StoreError::Damaged { path: path.into(), first: first.clone(), more })
        }
        None => damaged.iter().find_map(|damaged| damaged.seal.clone()).map_or(Ok(()), |error| Err(*error)),
    }
}
