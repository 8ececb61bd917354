//! What others committed.

use std::sync::Arc;

use sqlx::{PgConnection, Row as _, postgres::PgRow};

use crate::{
    error::StoreError,
    event::{Changes, Event, Head},
    row::{Reader, Row},
    seal::AtRest,
};

/// Rows that are still to be understood.
pub(super) struct Found {
    head: Head,
    complete: bool,
    tombstones: Vec<PgRow>,
    records: Vec<PgRow>,
}

/// Opens a transaction and looks for what is beyond a revision; `None` if there is nothing.
pub(super) async fn find(
    mut connection: PgConnection,
    open: &'static str,
    after: u64,
) -> Result<(PgConnection, Option<Found>), sqlx::Error> {
    sqlx::raw_sql(open).execute(&mut connection).await?;
    let (revision, floor): (i64, i64) =
        sqlx::query_as("SELECT revision, floor FROM kodiak_head").fetch_one(&mut connection).await?;
    let head = Head { revision: revision.cast_unsigned(), floor: floor.cast_unsigned() };
    if head.revision == after {
        return Ok((connection, None));
    }
    let complete = after == 0 || !head.continues(after);
    let after = if complete { 0 } else { after.cast_signed() };
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
