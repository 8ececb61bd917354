//! Reads the commits of others.

use std::sync::Arc;

use sqlx::{PgConnection, Row as _, postgres::PgRow};

use crate::{
    error::StoreError,
    event::{Changes, Event, Head},
    id::Id,
    row::{Reader, Row},
    seal::AtRest,
};

/// Rows that are not decoded yet.
pub(super) struct Found {
    head: Head,
    complete: bool,
    tombstones: Vec<PgRow>,
    records: Vec<PgRow>,
}

/// Opens a transaction and reads changes beyond `known`; `None` if there are none.
///
/// `known` may be of a history that this database no longer has, after a failover that lost commits or a restore.
/// Others may have written since, so a higher revision proves nothing; only the table of commits does.
pub(super) async fn find(
    mut connection: PgConnection,
    open: &'static str,
    known: Head,
) -> Result<(PgConnection, Option<Found>), sqlx::Error> {
    sqlx::raw_sql(open).execute(&mut connection).await?;
    let row = sqlx::query(
        "SELECT revision, floor, history, commit,
             EXISTS (SELECT FROM kodiak_commit past WHERE past.revision = $1 AND past.commit = $2) AS known
         FROM kodiak_head",
    )
    .bind(known.revision.cast_signed())
    .bind(&known.commit.to_bytes()[..])
    .fetch_one(&mut connection)
    .await?;
    let head = to_head(&row)?;
    if head.is_at(known) {
        return Ok((connection, None));
    }
    let is_past: bool = row.try_get("known")?;
    let complete = !(is_past && head.history == known.history && head.continues(known.revision));
    let after = if complete { 0 } else { known.revision.cast_signed() };
    let tombstones = sqlx::query("SELECT revision, kind, mesh, name FROM kodiak_tombstone WHERE revision > $1")
        .bind(after)
        .fetch_all(&mut connection)
        .await?;
    let records = sqlx::query(
        "SELECT kind, mesh, name, spec, sealed, status, labels, owner_kind, owner_mesh, owner_name,
             version, status_version, revision, created, modified
         FROM kodiak_record WHERE revision > $1",
    )
    .bind(after)
    .fetch_all(&mut connection)
    .await?;
    Ok((connection, Some(Found { head, complete, tombstones, records })))
}

impl Found {
    pub(super) fn to_changes(&self, reader: &mut Reader<'_>) -> Result<Changes, StoreError> {
        let Self { head, complete, tombstones, records } = self;
        let strange = |error| StoreError::corrupt("a row in PostgreSQL", error);
        let mut events = Vec::with_capacity(tombstones.len() + records.len());
        for row in tombstones {
            let (revision, key) = to_tombstone(row).map_err(strange)?;
            events.push(Event::Deleted { revision, key: reader.names.key(key) });
        }
        for row in records {
            events.push(Event::Put(Arc::new(reader.record(to_row(row).map_err(strange)?)?)));
        }
        events.sort_unstable_by_key(Event::revision);
        Ok(Changes { events, head: *head, complete: *complete })
    }
}

fn to_head(row: &PgRow) -> Result<Head, sqlx::Error> {
    let id = |column| {
        let malformed = || sqlx::Error::Decode(format!("kodiak_head.{column} does not have 16 bytes").into());
        Id::from_bytes(row.try_get(column)?).ok_or_else(malformed)
    };
    let number = |column| row.try_get::<i64, _>(column).map(i64::cast_unsigned);
    Ok(Head { revision: number("revision")?, floor: number("floor")?, history: id("history")?, commit: id("commit")? })
}

fn to_tombstone(row: &PgRow) -> Result<(u64, [&str; 3]), sqlx::Error> {
    let revision: i64 = row.try_get("revision")?;
    Ok((revision.cast_unsigned(), [row.try_get("kind")?, row.try_get("mesh")?, row.try_get("name")?]))
}

fn to_row(row: &PgRow) -> Result<Row<'_>, sqlx::Error> {
    let number = |column| row.try_get::<i64, _>(column);
    let owner: [Option<&str>; 3] = [row.try_get("owner_kind")?, row.try_get("owner_mesh")?, row.try_get("owner_name")?];
    Ok(Row {
        key: [row.try_get("kind")?, row.try_get("mesh")?, row.try_get("name")?],
        spec: AtRest { bytes: row.try_get::<&[u8], _>("spec")?.into(), sealed: row.try_get("sealed")? },
        status: row.try_get("status")?,
        labels: row.try_get::<&str, _>("labels")?.into(),
        owner: if let [Some(kind), Some(mesh), Some(name)] = owner { Some([kind, mesh, name]) } else { None },
        version: number("version")?.cast_unsigned(),
        status_version: number("status_version")?.cast_unsigned(),
        revision: number("revision")?.cast_unsigned(),
        created: number("created")?,
        modified: number("modified")?,
    })
}
