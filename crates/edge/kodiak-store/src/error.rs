//! Errors of the store, with the action to take.

use std::{
    error::Error,
    fmt::Display,
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use kodiak_model::ResourceKey;

use crate::damage::Damaged;

/// Cause of an error. Shared, because one failed write answers every caller in its batch.
pub(crate) type Cause = Arc<dyn Error + Send + Sync>;

#[derive(Debug, Clone, thiserror::Error)]
pub enum StoreError {
    /// Read again, and decide again.
    #[error("{0} changed since it was read")]
    Conflict(ResourceKey),

    #[error("{0} does not exist")]
    NotFound(ResourceKey),

    /// Another instance leads, and decides now.
    #[error("this control plane is no longer the leader")]
    Deposed,

    #[error("owner {owner} of {key} does not exist")]
    OwnerMissing { key: ResourceKey, owner: ResourceKey },

    /// The write can never succeed as it is.
    #[error("{key} cannot be stored: {problem}")]
    Invalid { key: ResourceKey, problem: &'static str },

    /// List again, and watch from the revision of that list.
    #[error("changes after revision {after} are no longer available, the oldest is {oldest}: list again")]
    Expired { after: u64, oldest: u64 },

    /// The write may or may not have happened; try again later.
    #[error("the store is not available")]
    Unavailable { source: Cause },

    #[error("{} is in use by another process: stop it, or use another file", .path.display())]
    Locked { path: PathBuf },

    #[error("cannot use {}", .path.display())]
    File { path: PathBuf, source: Cause },

    /// Nothing of the file is used: any part could be missing or wrong.
    #[error(
        "{} is damaged: {first}{}. List all damaged records with `kodiak store check --path {0}`. Restore a backup \
         with `kodiak store restore BACKUP --path {0}`; without one, save the undamaged records with \
         `kodiak store backup BACKUP --path {0} --skip-damaged` and restore that",
        .path.display(), and_more(*.more)
    )]
    Damaged { path: PathBuf, first: Damaged, more: usize },

    #[error(
        "{} is damaged and cannot be read: restore a backup with `kodiak store restore BACKUP --path {0}`",
        .path.display()
    )]
    DamagedFile { path: PathBuf, source: Cause },

    #[error("line {line} of the backup cannot be used: {problem}")]
    Backup { line: u64, problem: String },

    #[error("{} exists: use --force to replace it; the old file is renamed", .path.display())]
    Exists { path: PathBuf },

    #[error("the stored data is damaged: {what}")]
    Corrupt { what: String, source: Cause },

    #[error("the data has schema {found}, but this version supports only up to {known}: use a newer version")]
    NewerSchema { found: i64, known: i64 },

    #[error("{0} is sealed, and no key to unseal it is configured")]
    Sealed(ResourceKey),

    #[error("{0} was sealed with another key than the one that is configured")]
    WrongSeal(ResourceKey),
}

impl StoreError {
    pub(crate) fn closed() -> Self {
        Self::Unavailable { source: Arc::new(UnavailableReason::Closed) }
    }

    /// An operation of the back end at `place` failed.
    pub(crate) fn back_end_failed(place: &str, source: impl Error + Send + Sync + 'static) -> Self {
        Self::Unavailable {
            source: Arc::new(UnavailableReason::Failed { place: place.into(), source: Box::new(source) }),
        }
    }

    /// For writers, which handle all failures of the back end alike.
    pub(crate) fn into_unavailable(self) -> Self {
        match self {
            Self::Unavailable { .. } => self,
            other => Self::Unavailable { source: Arc::new(other) },
        }
    }

    pub(crate) fn file(path: impl Into<PathBuf>, source: impl Error + Send + Sync + 'static) -> Self {
        Self::File { path: path.into(), source: Arc::new(source) }
    }

    /// A write to a file failed.
    pub(crate) fn cannot_write(path: &Path, error: io::Error) -> Self {
        let what_to_do = match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                "free space on its file system; writes then resume by themselves"
            }
            io::ErrorKind::ReadOnlyFilesystem => "mount its file system read-write; writes then resume by themselves",
            _ => "check the disk and its file system; writes then resume by themselves",
        };
        Self::Unavailable { source: Arc::new(UnavailableReason::Disk { path: path.into(), what_to_do, error }) }
    }

    pub(crate) fn damaged_file(path: impl Into<PathBuf>, source: impl Error + Send + Sync + 'static) -> Self {
        Self::DamagedFile { path: path.into(), source: Arc::new(source) }
    }

    /// The error with its chain of causes.
    pub fn with_causes(&self) -> String {
        let mut text = self.to_string();
        let mut cause = self.source();
        while let Some(error) = cause {
            text = format!("{text}: {error}");
            cause = error.source();
        }
        text
    }

    pub(crate) fn corrupt(what: impl Display, source: impl Error + Send + Sync + 'static) -> Self {
        Self::Corrupt { what: format!("{what}"), source: Arc::new(source) }
    }
}

fn and_more(more: usize) -> String {
    match more {
        0 => String::new(),
        1 => ", and 1 more entry".to_owned(),
        more => format!(", and {more} more entries"),
    }
}

/// Why the store is unavailable.
#[derive(Debug, thiserror::Error)]
enum UnavailableReason {
    #[error("it is closed")]
    Closed,
    #[error("cannot write {}: {error}: {what_to_do}", .path.display())]
    Disk { path: PathBuf, what_to_do: &'static str, error: io::Error },
    #[error("{place} failed")]
    Failed { place: Box<str>, source: Box<dyn Error + Send + Sync> },
}
