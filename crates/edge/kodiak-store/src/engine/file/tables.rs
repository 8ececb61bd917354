//! The tables in the file, and how events go in and out.

use std::{path::Path, sync::Arc};

use redb::{Database, Error as RedbError, ReadableDatabase, ReadableTable, TableDefinition, TableError};

use crate::{
    error::StoreError,
    event::{Batch, Changes, Event, Head},
    names::Names,
    row::{Reader, Row, parts},
    seal::{AtRest, Sealer},
};

type Key = (&'static str, &'static str, &'static str);
/// Version, status version, revision, created, modified, whether sealed, spec, status, labels, owner.
type Columns = (u64, u64, u64, i64, i64, bool, &'static [u8], Option<&'static str>, &'static str, Option<Key>);

const META: TableDefinition<&str, u64> = TableDefinition::new("meta");
const RECORDS: TableDefinition<Key, Columns> = TableDefinition::new("records");
const TOMBSTONES: TableDefinition<u64, Key> = TableDefinition::new("tombstones");

const SCHEMA: u64 = 1;

/// A failure of redb, or of ours.
pub(super) enum Failure {
    Redb(RedbError),
    Store(StoreError),
}

impl Failure {
    pub(super) fn at(self, path: &Path) -> StoreError {
        match self {
            Self::Store(error) => error,
            Self::Redb(error @ RedbError::Corrupted(_)) => StoreError::corrupt(path.display(), error),
            Self::Redb(error) => StoreError::away(&path.display().to_string(), error),
        }
    }
}

impl<E: Into<RedbError>> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::Redb(error.into())
    }
}

/// Makes the tables of an empty file. Leaves a file with tables untouched, and refuses one from the future.
pub(super) fn create_missing(database: &Database) -> Result<(), Failure> {
    match database.begin_read()?.open_table(META) {
        Ok(meta) => {
            let found = meta.get("schema")?.map_or(0, |schema| schema.value());
            if found > SCHEMA {
                let (found, known) = (found.cast_signed(), SCHEMA.cast_signed());
                return Err(Failure::Store(StoreError::NewerSchema { found, known }));
            }
            return Ok(());
        }
        Err(TableError::TableDoesNotExist(_)) => (),
        Err(error) => return Err(error.into()),
    }
    let transaction = database.begin_write()?;
    transaction.open_table(META)?.insert("schema", SCHEMA)?;
    transaction.open_table(RECORDS)?;
    transaction.open_table(TOMBSTONES)?;
    transaction.commit()?;
    Ok(())
}

pub(super) fn read(database: &Database, sealer: &Sealer, after: u64) -> Result<Option<Changes>, Failure> {
    let transaction = database.begin_read()?;
    let meta = transaction.open_table(META)?;
    let number = |name| -> Result<u64, Failure> { Ok(meta.get(name)?.map_or(0, |number| number.value())) };
    let head = Head { revision: number("revision")?, floor: number("floor")? };
    if head.revision == after {
        return Ok(None);
    }
    let complete = after == 0 || !head.continues(after);
    let after = if complete { 0 } else { after };

    let mut events = Vec::new();
    let mut names = Names::default();
    for tombstone in transaction.open_table(TOMBSTONES)?.range(after + 1..)? {
        let (revision, key) = tombstone?;
        let (kind, mesh, name) = key.value();
        events.push(Event::Deleted { revision: revision.value(), key: names.key([kind, mesh, name]) });
    }
    let mut reader = Reader { sealer, names: &mut names };
    for record in transaction.open_table(RECORDS)?.iter()? {
        let (key, columns) = record?;
        let row = to_row(key.value(), columns.value());
        if row.revision > after {
            events.push(Event::Put(Arc::new(reader.record(row).map_err(Failure::Store)?)));
        }
    }
    events.sort_unstable_by_key(Event::revision);
    Ok(Some(Changes { events, head, complete }))
}

pub(super) fn write(database: &Database, sealer: &Sealer, batch: &Batch) -> Result<(), Failure> {
    let transaction = database.begin_write()?; // on the disk when its commit returns: redb's default
    {
        let mut records = transaction.open_table(RECORDS)?;
        for key in &batch.gone {
            let [kind, mesh, name] = parts(key);
            records.remove((kind, mesh, name))?;
        }
        for record in &batch.puts {
            let Row { key, spec, status, labels, owner, version, status_version, revision, created, modified } =
                Row::new(record, sealer);
            let AtRest { bytes, sealed } = &spec;
            let columns = (
                version,
                status_version,
                revision,
                created,
                modified,
                *sealed,
                &**bytes,
                status,
                &*labels,
                owner.map(Into::into),
            );
            records.insert(<(&str, &str, &str)>::from(key), columns)?;
        }
        let mut tombstones = transaction.open_table(TOMBSTONES)?;
        for (revision, key) in &batch.tombstones {
            tombstones.insert(revision, <(&str, &str, &str)>::from(parts(key)))?;
        }
        tombstones.retain_in(..=batch.head.floor, |_, _| false)?;
        let mut meta = transaction.open_table(META)?;
        meta.insert("revision", batch.head.revision)?;
        meta.insert("floor", batch.head.floor)?;
    }
    transaction.commit()?;
    Ok(())
}

fn to_row<'a>(key: (&'a str, &'a str, &'a str), columns: <Columns as redb::Value>::SelfType<'a>) -> Row<'a> {
    let (version, status_version, revision, created, modified, sealed, spec, status, labels, owner) = columns;
    Row {
        key: key.into(),
        spec: AtRest { bytes: spec.into(), sealed },
        status,
        labels: labels.into(),
        owner: owner.map(Into::into),
        version,
        status_version,
        revision,
        created,
        modified,
    }
}
