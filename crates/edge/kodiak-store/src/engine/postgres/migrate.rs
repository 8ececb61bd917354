//! Migrates the tables of the database, and rejects those of a newer version.

use std::{io, time::Duration};

use sqlx::{
    Connection as _,
    migrate::{MigrateError, Migrator},
};

use super::connect::Place;
use crate::error::StoreError;

static MIGRATIONS: Migrator = sqlx::migrate!();

const LONGEST: Duration = Duration::from_mins(5);

/// Several control planes may start at once: the migrator lets only one of them work.
///
/// On a separate connection, because a failed migration leaves its lock with the connection.
pub(super) async fn run(place: &Place) -> Result<(), StoreError> {
    let mut connection = place.within(place.connect()).await.map_err(|error| place.back_end_failed(error))?;
    // Others may be migrating, which can take long, but a hanging database must be noticed.
    let migrated = tokio::time::timeout(LONGEST, MIGRATIONS.run_direct(None, &mut connection, false)).await;
    let migrated =
        migrated.unwrap_or_else(|_| Err(MigrateError::Execute(sqlx::Error::Io(io::ErrorKind::TimedOut.into()))));
    migrated.map_err(|error| match error {
        MigrateError::VersionMissing(found) => {
            let known = MIGRATIONS.iter().map(|migration| migration.version).max().unwrap_or(0);
            StoreError::NewerSchema { found, known }
        }
        MigrateError::Execute(error) | MigrateError::ExecuteMigration(error, _) => place.back_end_failed(error),
        error => StoreError::corrupt("the tables in PostgreSQL were not created by this version", error),
    })?;
    place.within(connection.close()).await.map_err(|error| place.back_end_failed(error))
}
