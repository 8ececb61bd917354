//! Tables of the file, and their reads and writes.

use std::{path::Path, sync::Arc};

use kodiak_model::ResourceKey;
use redb::{
    Database, Error as RedbError, ReadableDatabase as _, ReadableTable as _, Table, TableDefinition, TableError,
    WriteTransaction,
};

use super::{
    encode::{self, Damage, Total},
    migrate,
};
use crate::{
    damage::{self, Damaged},
    error::StoreError,
    event::{Batch, Changes, Event, Head},
    id::Id,
    names::Names,
    row::{Reader, Row, parts},
    seal::Sealer,
};

type Bytes = &'static [u8];

pub(super) const META: TableDefinition<&str, u64> = TableDefinition::new("meta");
const HEAD: TableDefinition<&str, Bytes> = TableDefinition::new("head");
const RECORDS: TableDefinition<Bytes, Bytes> = TableDefinition::new("records-2");
const TOMBSTONES: TableDefinition<u64, Bytes> = TableDefinition::new("tombstones-2");

pub(super) const SCHEMA: u64 = 2;

/// An error of redb or of the store.
pub(super) enum Failure {
    Redb(RedbError),
    Store(StoreError),
}

impl Failure {
    pub(super) fn at(self, path: &Path) -> StoreError {
        match self {
            Self::Store(error) => error,
            Self::Redb(
                error @ (RedbError::Corrupted(_)
                | RedbError::TableTypeMismatch { .. }
                | RedbError::TableDoesNotExist(_)
                | RedbError::TypeDefinitionChanged { .. }),
            ) => StoreError::damaged_file(path, error),
            Self::Redb(RedbError::Io(error)) => StoreError::cannot_write(path, error),
            Self::Redb(error) => StoreError::back_end_failed(&path.display().to_string(), error),
        }
    }
}

impl<E: Into<RedbError>> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::Redb(error.into())
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

/// Creates the tables of an empty file, migrates those of an older version, and rejects those of a newer one.
pub(super) fn prepare(database: &Database, path: &Path) -> Result<(), Failure> {
    let found = match database.begin_read()?.open_table(META) {
        Ok(meta) => meta.get("schema")?.map_or(0, |schema| schema.value()),
        Err(TableError::TableDoesNotExist(_)) => return create(database),
        Err(error) => return Err(error.into()),
    };
    match found {
        SCHEMA => Ok(()),
        1 => migrate::from_1(database, path),
        0 => Err(StoreError::damaged_file(path, Damage::Content).into()),
        _ => {
            let (found, known) = (found.cast_signed(), SCHEMA.cast_signed());
            Err(StoreError::NewerSchema { found, known }.into())
        }
    }
}

fn create(database: &Database) -> Result<(), Failure> {
    let head = Head { history: Id::random(), ..Head::default() };
    fill(database, &Filling { head, ..Filling::default() }, |_| Ok(()))
}

/// Complete content of a new file.
#[derive(Default)]
pub(super) struct Filling {
    pub(super) entries: Vec<Entry>,
    pub(super) tombstones: Vec<(u64, ResourceKey)>,
    pub(super) head: Head,
}

/// A record to be written.
pub(super) struct Entry {
    key: Vec<u8>,
    bytes: Vec<u8>,
}

impl Entry {
    pub(super) fn new(row: &Row<'_>) -> Self {
        Self { key: encode::key_bytes(row.key), bytes: encode::record(row) }
    }
}

/// Creates the tables of a file that has none of this version. It is one transaction, including `also`.
pub(super) fn fill(
    database: &Database,
    filling: &Filling,
    also: impl FnOnce(&WriteTransaction) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let transaction = database.begin_write()?;
    also(&transaction)?;
    transaction.open_table(META)?.insert("schema", SCHEMA)?;
    let Filling { entries, tombstones, head } = filling;
    transaction.open_table(HEAD)?.insert("head", &*encode::total(&Total { head: *head, ..Total::default() }))?;
    put(&transaction, &[], entries.iter().map(|Entry { key, bytes }| (&**key, &**bytes)), tombstones, *head)?;
    transaction.commit()?;
    Ok(())
}

/// All entries, with damaged ones separate.
#[derive(Default)]
pub(crate) struct Content {
    pub(crate) head: Head,
    pub(crate) events: Vec<Event>,
    pub(crate) damaged: Vec<Damaged>,
}

/// Reads and verifies everything, even if parts are damaged. `visit` gets the rows whose checksum matches.
pub(super) fn read_all(
    database: &Database,
    sealer: &Sealer,
    mut visit: impl FnMut(&Row<'_>),
) -> Result<Content, Failure> {
    let transaction = database.begin_read()?;
    let stored = match transaction.open_table(HEAD)?.get("head")? {
        Some(entry) => encode::read_total(entry.value()),
        None => Err(Damage::Content),
    };
    let mut content = Content::default();
    let mut found = Total::default();
    let mut names = Names::default();
    for tombstone in transaction.open_table(TOMBSTONES)?.iter()? {
        let (revision, entry) = tombstone?;
        let (revision, entry) = (revision.value(), entry.value());
        found.add(entry);
        match encode::read_tombstone(revision, entry) {
            Ok(key) => content.events.push(Event::Deleted { revision, key: names.key(key) }),
            Err(damage) => content.damaged.push(Damaged::tombstone(revision, damage)),
        }
    }
    let mut reader = Reader { sealer, names: &mut names };
    for record in transaction.open_table(RECORDS)?.iter()? {
        let (key, entry) = record?;
        found.add(entry.value());
        let shown = || encode::shown_key(key.value());
        match encode::read_record(key.value(), entry.value()) {
            Ok(row) => {
                visit(&row);
                match reader.record(row) {
                    Ok(record) => content.events.push(Event::Put(Arc::new(record))),
                    Err(error) => content.damaged.push(Damaged::unreadable(shown(), error)),
                }
            }
            Err(damage) => content.damaged.push(Damaged::record(shown(), damage)),
        }
    }
    content.events.sort_unstable_by_key(Event::revision);
    match stored {
        Ok(Total { head, entries, sum }) => {
            content.head = head;
            if (entries, sum) != (found.entries, found.sum) {
                content.damaged.push(Damaged::missing(entries, found.entries));
            }
        }
        Err(damage) => content.damaged.push(Damaged::head(damage)),
    }
    Ok(content)
}

/// Changes beyond `known`. Fails when anything is damaged, since the rest would be served as if it were complete.
pub(super) fn read(database: &Database, path: &Path, sealer: &Sealer, known: Head) -> Result<Option<Changes>, Failure> {
    let Content { head, mut events, damaged } = read_all(database, sealer, |_| ())?;
    damage::refuse(path, &damaged)?;
    if head.is_at(known) {
        return Ok(None);
    }
    let complete = !head.extends(known);
    if !complete {
        events.retain(|event| event.revision() > known.revision);
    }
    Ok(Some(Changes { events, head, complete }))
}

pub(super) fn write(database: &Database, sealer: &Sealer, batch: &Batch) -> Result<(), Failure> {
    let transaction = database.begin_write()?; // on the disk when its commit returns: redb's default
    let Batch { puts, gone, tombstones, head } = batch;
    let entries: Vec<_> = puts.iter().map(|record| Entry::new(&Row::new(record, sealer))).collect();
    put(&transaction, gone, entries.iter().map(|Entry { key, bytes }| (&**key, &**bytes)), tombstones, *head)?;
    transaction.commit()?;
    Ok(())
}

fn put<'a>(
    transaction: &WriteTransaction,
    gone: &[ResourceKey],
    entries: impl Iterator<Item = (&'a [u8], &'a [u8])>,
    buried: &[(u64, ResourceKey)],
    head: Head,
) -> Result<(), Failure> {
    let mut table = transaction.open_table(HEAD)?;
    let mut total = stored_total(&table)?;
    let mut records = transaction.open_table(RECORDS)?;
    for key in gone {
        if let Some(old) = records.remove(&*encode::key_bytes(parts(key)))? {
            total.remove(old.value());
        }
    }
    for (key, entry) in entries {
        if let Some(old) = records.insert(key, entry)? {
            total.remove(old.value());
        }
        total.add(entry);
    }
    let mut tombstones = transaction.open_table(TOMBSTONES)?;
    for (revision, key) in buried {
        let entry = encode::tombstone(*revision, key);
        if let Some(old) = tombstones.insert(revision, &*entry)? {
            total.remove(old.value());
        }
        total.add(&entry);
    }
    for forgotten in tombstones.extract_from_if(..=head.floor, |_, _| true)? {
        total.remove(forgotten?.1.value());
    }
    total.head = head;
    table.insert("head", &*encode::total(&total))?;
    Ok(())
}

fn stored_total(table: &Table<'_, &str, Bytes>) -> Result<Total, Failure> {
    let entry = table.get("head")?;
    let total = entry.map_or(Err(Damage::Content), |entry| encode::read_total(entry.value()));
    total.map_err(|damage| StoreError::corrupt("the head of the store", damage).into())
}
