//! Migrates files of older versions.

use std::path::Path;

use redb::{Database, ReadableDatabase as _, ReadableTable as _, TableDefinition};

use super::tables::{Entry, Failure, Filling, META, fill};
use crate::{event::Head, id::Id, names::Names, row::Row, seal::AtRest};

type Key = (&'static str, &'static str, &'static str);
/// Version, status version, revision, created, modified, whether sealed, spec, status, labels, owner.
type Columns = (u64, u64, u64, i64, i64, bool, &'static [u8], Option<&'static str>, &'static str, Option<Key>);

const RECORDS: TableDefinition<Key, Columns> = TableDefinition::new("records");
const TOMBSTONES: TableDefinition<u64, Key> = TableDefinition::new("tombstones");

/// Schema 1 has no checksums and no history. Everything is migrated in one transaction, sealed specs unchanged.
pub(super) fn from_1(database: &Database, path: &Path) -> Result<(), Failure> {
    let filling = {
        let transaction = database.begin_read()?;
        let meta = transaction.open_table(META)?;
        let number = |name| -> Result<u64, Failure> { Ok(meta.get(name)?.map_or(0, |number| number.value())) };
        let (revision, floor) = (number("revision")?, number("floor")?);
        let head = Head { revision, floor, history: Id::random(), commit: Id::random() };
        let mut entries = Vec::new();
        for record in transaction.open_table(RECORDS)?.iter()? {
            let (key, columns) = record?;
            entries.push(Entry::new(&to_row(key.value(), columns.value())));
        }
        let mut names = Names::default();
        let mut tombstones = Vec::new();
        for tombstone in transaction.open_table(TOMBSTONES)?.iter()? {
            let (revision, key) = tombstone?;
            let (kind, mesh, name) = key.value();
            tombstones.push((revision.value(), names.key([kind, mesh, name])));
        }
        Filling { entries, tombstones, head }
    };
    fill(database, &filling, |transaction| {
        transaction.delete_table(RECORDS)?;
        transaction.delete_table(TOMBSTONES)?;
        Ok(())
    })?;
    tracing::info!(path = %path.display(), records = filling.entries.len(), "added checksums to the store file");
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
