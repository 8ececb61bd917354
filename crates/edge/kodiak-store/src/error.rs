//! What can go wrong, said so that the caller knows what to do next.

use std::{error::Error, fmt::Display, path::PathBuf, sync::Arc};

use kodiak_model::ResourceKey;

/// The cause of an error. Shared, because one failed write answers every caller it was gathered from.
pub(crate) type Cause = Arc<dyn Error + Send + Sync>;

#[derive(Debug, Clone, thiserror::Error)]
pub enum StoreError {
    /// Read again, and decide again.
    #[error("{0} changed since it was read")]
    Conflict(ResourceKey),

    #[error("{0} does not exist")]
    NotFound(ResourceKey),

    #[error("{owner}, which is to own {key}, does not exist")]
    OwnerMissing { key: ResourceKey, owner: ResourceKey },

    /// The write can never succeed as it is.
    #[error("{key} cannot be stored: {problem}")]
    Invalid { key: ResourceKey, problem: &'static str },

    /// List again, and watch from the revision of that list.
    #[error("changes after revision {after} are no longer known, the oldest is {oldest}: list again")]
    Expired { after: u64, oldest: u64 },

    /// Nothing was promised to have been written; try again later.
    #[error("the store is not available")]
    Unavailable { source: Cause },

    #[error("{} is in use by another process: stop that one, or give this one another file", .path.display())]
    Locked { path: PathBuf },

    #[error("cannot use {}", .path.display())]
    File { path: PathBuf, source: Cause },

    #[error("the stored data is damaged: {what}")]
    Corrupt { what: String, source: Cause },

    #[error("the data has schema {found} and this program knows only up to {known}: use a newer one")]
    NewerSchema { found: i64, known: i64 },

    #[error("{0} is sealed, and no key to unseal it is configured")]
    Sealed(ResourceKey),

    #[error("{0} was sealed with another key than the one that is configured")]
    WrongSeal(ResourceKey),
}

impl StoreError {
    pub(crate) fn closed() -> Self {
        Self::Unavailable { source: Arc::new(Away::Closed) }
    }

    /// The back end at `place` did not do what it was asked.
    pub(crate) fn away(place: &str, source: impl Error + Send + Sync + 'static) -> Self {
        Self::Unavailable { source: Arc::new(Away::Failed { place: place.into(), source: Box::new(source) }) }
    }

    /// For callers who want to write, and to whom it is all the same what is wrong with the back end.
    pub(crate) fn into_unavailable(self) -> Self {
        match self {
            Self::Unavailable { .. } => self,
            other => Self::Unavailable { source: Arc::new(other) },
        }
    }

    pub(crate) fn file(path: impl Into<PathBuf>, source: impl Error + Send + Sync + 'static) -> Self {
        Self::File { path: path.into(), source: Arc::new(source) }
    }

    pub(crate) fn corrupt(what: impl Display, source: impl Error + Send + Sync + 'static) -> Self {
        Self::Corrupt { what: format!("{what}"), source: Arc::new(source) }
    }
}

/// Why the store is not available.
#[derive(Debug, thiserror::Error)]
enum Away {
    #[error("it is closed")]
    Closed,
    #[error("{place} failed")]
    Failed { place: Box<str>, source: Box<dyn Error + Send + Sync> },
}
