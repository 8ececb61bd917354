//! Offline commands for a store file: check, backup and restore.
//!
//! The file itself is only read. redb repairs files that it opens, so it gets a copy in memory.

use std::{
    fs::{self, File, TryLockError},
    io::{self, BufRead, Read as _},
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
};

use jiff::Timestamp;
use redb::{Database, StorageBackend as _, backends::InMemoryBackend};
use serde_json::Value;

use super::tables::{self, Content, Entry, Filling};
use crate::{
    backup::{self, Backup, Line, Totals},
    damage::{self, Damaged},
    error::StoreError,
    event::{Event, Head},
    id::Id,
    seal::{Seal, Sealer},
};

/// Result of `check`.
#[derive(Debug, Clone)]
pub struct Checked {
    pub records: usize,
    pub revision: u64,
    /// ID of the history; a restore creates a new one.
    pub history: String,
    pub damaged: Vec<Damaged>,
}

/// Result of `restore`.
#[derive(Debug, Clone)]
pub struct Restored {
    pub totals: Totals,
    pub revision: u64,
    pub history: String,
    /// New path of the file that was replaced.
    pub kept: Option<PathBuf>,
}

/// Reads everything in a store file, and lists all damaged entries. Changes nothing.
pub fn check(path: &Path, seal: Option<Seal>) -> Result<Checked, StoreError> {
    let (content, _) = load(path, &Sealer::new(seal))?;
    let Content { head, events, mut damaged } = content;
    let mut records = 0;
    for event in &events {
        let Event::Put(record) = event else { continue };
        records += 1;
        let texts = [Some(&record.spec), record.status.as_ref()];
        if let Some(error) = texts.into_iter().flatten().find_map(|text| serde_json::from_str::<Value>(text).err()) {
            damaged.push(Damaged::unreadable(record.key.to_string(), StoreError::corrupt("it is not JSON", error)));
        }
    }
    Ok(Checked { records, revision: head.revision, history: head.history.to_string(), damaged })
}

/// Backup of a store file, with sealed specs unchanged. Damaged records are an error, or are skipped and returned.
pub fn backup(path: &Path, skip_damaged: bool) -> Result<(Backup, Vec<Damaged>), StoreError> {
    let (content, mut lines) = load(path, &Sealer::default())?;
    let Content { head, events, damaged } = content;
    let damaged: Vec<_> = damaged.into_iter().filter(|damaged| damaged.seal.is_none()).collect();
    if !skip_damaged {
        damage::refuse(path, &damaged)?;
    }
    let newest = events.iter().map(Event::revision).max().unwrap_or_default();
    for event in &events {
        if let Event::Deleted { revision, key } = event {
            lines.push(Line::deleted(*revision, key));
        }
    }
    // The revision in a damaged head is unreliable.
    let head = Head { revision: head.revision.max(newest), ..head };
    Ok((Backup::new(head, lines.into_iter()), damaged))
}

/// Verifies a backup, and returns its totals and its revision.
pub fn verify(input: impl BufRead) -> Result<(Totals, u64), StoreError> {
    let backup::Restorable { totals, head, .. } = backup::read(input)?;
    Ok((totals, head.revision))
}

/// Creates a store file from a backup, with a new history. An existing file is an error, or renamed when `force` is
/// set.
pub fn restore(input: impl BufRead, path: &Path, seal: Option<Seal>, force: bool) -> Result<Restored, StoreError> {
    let there = path.exists();
    if there {
        if !force {
            return Err(StoreError::Exists { path: path.into() });
        }
        drop(lock(path)?);
    }
    let backup::Restorable { records, deletions, head, totals } = backup::read(input)?;
    let head = Head { history: Id::random(), commit: Id::random(), ..head };
    let failed = |error: io::Error| StoreError::cannot_write(path, error);
    let temporary = with_suffix(path, &format!("restoring-{}", Id::random()));
    let made = fill(
        &temporary,
        path,
        &Filling {
            entries: records.iter().map(|record| Entry::new(&record.row())).collect(),
            tombstones: deletions,
            head,
        },
    )
    .and_then(|()| damage::refuse(path, &load(&temporary, &Sealer::new(seal))?.0.damaged));
    if let Err(error) = made {
        drop(fs::remove_file(&temporary));
        return Err(error);
    }
    let kept = there.then(|| with_suffix(path, &format!("before-restore-{}", Timestamp::now().as_second())));
    if let Some(kept) = &kept {
        fs::rename(path, kept).map_err(failed)?;
    }
    fs::rename(&temporary, path).map_err(failed)?;
    File::open(super::open::directory(path)).and_then(|folder| folder.sync_all()).map_err(failed)?;
    Ok(Restored { totals, revision: head.revision, history: head.history.to_string(), kept })
}

fn fill(temporary: &Path, path: &Path, filling: &Filling) -> Result<(), StoreError> {
    let database = super::open::create(temporary)?;
    tables::fill(&database, filling, |_| Ok(())).map_err(|error| error.at(path))
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".");
    name.push(suffix);
    path.with_file_name(name)
}

/// The content, and the backup lines of it.
fn load(path: &Path, sealer: &Sealer) -> Result<(Content, Vec<Line>), StoreError> {
    let bytes = read_file(path)?;
    let opened = || -> Result<(Content, Vec<Line>), StoreError> {
        let backend = InMemoryBackend::new();
        let copied = backend.set_len(bytes.len() as u64).and_then(|()| backend.write(0, &bytes));
        copied.map_err(|error| StoreError::file(path, error))?;
        let database =
            Database::builder().create_with_backend(backend).map_err(|error| StoreError::damaged_file(path, error))?;
        tables::prepare(&database, path).map_err(|error| error.at(path))?;
        let mut lines = Vec::new();
        let content = tables::read_all(&database, sealer, |row| lines.push(Line::record(row)));
        Ok((content.map_err(|error| error.at(path))?, lines))
    };
    // redb trusts the structure of its pages, and panics when it is invalid.
    catch_unwind(AssertUnwindSafe(opened)).unwrap_or_else(|_| {
        let impossible = io::Error::new(io::ErrorKind::InvalidData, "the structure of its pages is impossible");
        Err(StoreError::damaged_file(path, impossible))
    })
}

/// Fails while another process uses it.
fn read_file(path: &Path) -> Result<Vec<u8>, StoreError> {
    let mut file = lock(path)?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).map_err(|error| StoreError::file(path, error))?;
    if bytes.is_empty() {
        return Err(StoreError::damaged_file(path, io::Error::new(io::ErrorKind::UnexpectedEof, "the file is empty")));
    }
    Ok(bytes)
}

fn lock(path: &Path) -> Result<File, StoreError> {
    let file = File::open(path).map_err(|error| StoreError::file(path, error))?;
    match file.try_lock_shared() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(StoreError::Locked { path: path.into() }),
        Err(TryLockError::Error(error)) => Err(StoreError::file(path, error)),
    }
}
