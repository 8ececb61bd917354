//! Opens or creates the file.

use std::{
    fs::{self, File, OpenOptions},
    io,
    os::unix::fs::OpenOptionsExt as _,
    path::Path,
};

use redb::{Database, DatabaseError, StorageError};

use super::tables;
use crate::error::StoreError;

/// All records are in memory already, so redb needs little: enough for frequently written pages.
const CACHE_BYTES: usize = 16 << 20;

pub(super) fn open(path: &Path) -> Result<Database, StoreError> {
    let database = create(path)?;
    tables::prepare(&database, path).map_err(|error| error.at(path))?;
    Ok(database)
}

/// A new file has no tables.
pub(super) fn create(path: &Path) -> Result<Database, StoreError> {
    let file = open_file(path).map_err(|error| opening(path, error))?;
    Database::builder().set_cache_size(CACHE_BYTES).create_file(file).map_err(|error| match error {
        DatabaseError::DatabaseAlreadyOpen => StoreError::Locked { path: path.into() },
        DatabaseError::Storage(StorageError::Io(error)) => opening(path, error),
        error => StoreError::damaged_file(path, error),
    })
}

pub(super) fn directory(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Fails when the file system has no space for a few more commits.
pub(super) fn check_space(path: &Path) -> Result<(), StoreError> {
    const LEAST: u64 = 1 << 20;
    match rustix::fs::statvfs(directory(path)) {
        // Some file systems do not report it.
        Ok(found) if found.f_blocks > 0 && found.f_bavail.saturating_mul(found.f_frsize) < LEAST => {
            Err(StoreError::cannot_write(path, rustix::io::Errno::NOSPC.into()))
        }
        Ok(_) | Err(_) => Ok(()),
    }
}

/// A full disk is detected here too: redb writes when it opens a file that was not closed.
fn opening(path: &Path, error: io::Error) -> StoreError {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::ReadOnlyFilesystem => {
            StoreError::cannot_write(path, error)
        }
        _ => StoreError::file(path, error),
    }
}

/// Only the owner may read it: not every kind is sealed.
fn open_file(path: &Path) -> io::Result<File> {
    let directory = directory(path);
    fs::create_dir_all(directory)?;
    let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path)?;
    // A new file is only durable when its directory entry is on the disk too.
    File::open(directory)?.sync_all()?;
    Ok(file)
}
