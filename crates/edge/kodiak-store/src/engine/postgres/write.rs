//! One commit: a fixed number of statements, for any number of rows.

use sqlx::PgConnection;

use super::listen::CHANNEL;
use crate::{
    event::Batch,
    row::{Row, parts},
    seal::Sealer,
};

/// Number of revisions for which commits are stored. An instance that is further behind reads everything again.
const REMEMBERED: i64 = 100_000;

/// Allocates about a mebibyte for a moment. An update of the head alone fits into an existing page.
const PROVE_SPACE: &str = "CREATE TEMPORARY TABLE kodiak_space ON COMMIT DROP AS
    SELECT md5(random()::text) AS noise FROM generate_series(1, 16384)";

/// Writes into the open transaction, and commits it.
pub(super) async fn write(
    mut connection: PgConnection,
    batch: &Batch,
    sealer: &Sealer,
    prove_space: bool,
) -> Result<PgConnection, sqlx::Error> {
    let Batch { puts, gone, tombstones, head } = batch;
    if batch.is_empty() && prove_space {
        sqlx::raw_sql(PROVE_SPACE).execute(&mut connection).await?;
    }
    if !gone.is_empty() {
        delete(&mut connection, batch).await?;
    }
    if !puts.is_empty() {
        put(&mut connection, batch, sealer).await?;
    }
    if !tombstones.is_empty() {
        store_tombstones(&mut connection, batch).await?;
    }
    // A batch that only probes needs no notification.
    let notify = !batch.is_empty();
    sqlx::query(
        "WITH moved AS (UPDATE kodiak_head SET revision = $1, floor = $2, commit = $5),
              noted AS (INSERT INTO kodiak_commit (revision, commit) SELECT $1, $5 WHERE $4),
              forgotten AS (DELETE FROM kodiak_commit WHERE revision <= $1 - $6 AND $4)
         SELECT pg_notify($3, $1::text) WHERE $4",
    )
    .bind(head.revision.cast_signed())
    .bind(head.floor.cast_signed())
    .bind(CHANNEL)
    .bind(notify)
    .bind(&head.commit.to_bytes()[..])
    .bind(REMEMBERED)
    .execute(&mut connection)
    .await?;
    sqlx::raw_sql("COMMIT").execute(&mut connection).await?;
    Ok(connection)
}

async fn put(connection: &mut PgConnection, batch: &Batch, sealer: &Sealer) -> Result<(), sqlx::Error> {
    let rows: Vec<_> = batch.puts.iter().map(|record| Row::new(record, sealer)).collect();
    let part = |part: usize| rows.iter().map(|row| row.key[part]).collect::<Vec<_>>();
    let owner = |part: usize| rows.iter().map(|row| row.owner.map(|owner| owner[part])).collect::<Vec<_>>();
    let number = |number: fn(&Row<'_>) -> u64| rows.iter().map(|row| number(row).cast_signed()).collect::<Vec<_>>();
    sqlx::query(
        "INSERT INTO kodiak_record (kind, mesh, name, spec, sealed, status, labels, owner_kind, owner_mesh, owner_name,
             version, status_version, revision, created, modified)
         SELECT * FROM UNNEST($1::text[], $2::text[], $3::text[], $4::bytea[], $5::bool[], $6::text[], $7::text[],
             $8::text[], $9::text[], $10::text[], $11::bigint[], $12::bigint[], $13::bigint[], $14::bigint[], $15::bigint[])
         ON CONFLICT (kind, mesh, name) DO UPDATE SET
             spec = excluded.spec, sealed = excluded.sealed, status = excluded.status, labels = excluded.labels,
             owner_kind = excluded.owner_kind, owner_mesh = excluded.owner_mesh, owner_name = excluded.owner_name,
             version = excluded.version, status_version = excluded.status_version, revision = excluded.revision,
             created = excluded.created, modified = excluded.modified",
    )
    .bind(part(0))
    .bind(part(1))
    .bind(part(2))
    .bind(rows.iter().map(|row| &*row.spec.bytes).collect::<Vec<_>>())
    .bind(rows.iter().map(|row| row.spec.sealed).collect::<Vec<_>>())
    .bind(rows.iter().map(|row| row.status).collect::<Vec<_>>())
    .bind(rows.iter().map(|row| &*row.labels).collect::<Vec<_>>())
    .bind(owner(0))
    .bind(owner(1))
    .bind(owner(2))
    .bind(number(|row| row.version))
    .bind(number(|row| row.status_version))
    .bind(number(|row| row.revision))
    .bind(rows.iter().map(|row| row.created).collect::<Vec<_>>())
    .bind(rows.iter().map(|row| row.modified).collect::<Vec<_>>())
    .execute(connection)
    .await?;
    Ok(())
}

async fn delete(connection: &mut PgConnection, batch: &Batch) -> Result<(), sqlx::Error> {
    let part = |part: usize| batch.gone.iter().map(|key| parts(key)[part]).collect::<Vec<_>>();
    sqlx::query(
        "DELETE FROM kodiak_record record
         USING UNNEST($1::text[], $2::text[], $3::text[]) AS gone (kind, mesh, name)
         WHERE record.kind = gone.kind AND record.mesh = gone.mesh AND record.name = gone.name",
    )
    .bind(part(0))
    .bind(part(1))
    .bind(part(2))
    .execute(connection)
    .await?;
    Ok(())
}

/// Stores tombstones, and drops old ones.
async fn store_tombstones(connection: &mut PgConnection, batch: &Batch) -> Result<(), sqlx::Error> {
    let part = |part: usize| batch.tombstones.iter().map(|(_, key)| parts(key)[part]).collect::<Vec<_>>();
    sqlx::query(
        "WITH forgotten AS (DELETE FROM kodiak_tombstone WHERE revision <= $5)
         INSERT INTO kodiak_tombstone (revision, kind, mesh, name)
         SELECT * FROM UNNEST($1::bigint[], $2::text[], $3::text[], $4::text[])",
    )
    .bind(batch.tombstones.iter().map(|(revision, _)| revision.cast_signed()).collect::<Vec<_>>())
    .bind(part(0))
    .bind(part(1))
    .bind(part(2))
    .bind(batch.head.floor.cast_signed())
    .execute(connection)
    .await?;
    Ok(())
}
