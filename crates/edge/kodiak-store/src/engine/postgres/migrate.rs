//! Migrates the tables of the database, and rejects those of a newer version.

use std::{io, sync::LazyLock, time::Duration};

use sqlx::{
    Connection as _, SqlSafeStr as _,
    migrate::{MigrateError, Migration, MigrationType, Migrator},
};

use super::connect::Place;
use crate::error::StoreError;

/// Listed by hand: `sqlx::migrate!` would compile sqlx and its TLS library a second time, for the compiler.
static MIGRATIONS: LazyLock<Migrator> = LazyLock::new(|| {
    let files = [
        ("store", include_str!("../../../migrations/0001_store.sql")),
        ("histories", include_str!("../../../migrations/0002_histories.sql")),
        ("instances", include_str!("../../../migrations/0003_instances.sql")),
        ("terms", include_str!("../../../migrations/0004_terms.sql")),
    ];
    let migrations = (1..).zip(files).map(|(version, (name, sql))| {
        Migration::new(version, name.into(), MigrationType::Simple, sql.into_sql_str(), false)
    });
    Migrator::with_migrations(migrations.collect())
});

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

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn every_migration_file_is_listed() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/migrations");
        let files = fs::read_dir(folder).unwrap().map(|file| file.unwrap().file_name().into_string().unwrap());
        let mut files: Vec<_> = files.collect();
        files.sort();
        let listed =
            MIGRATIONS.iter().map(|migration| format!("{:04}_{}.sql", migration.version, migration.description));
        assert_eq!(files, listed.collect::<Vec<_>>());
    }

    #[test]
    fn released_migrations_do_not_change() {
        // A database remembers the checksum of each migration, and a control plane with another one does not start.
        let starts = MIGRATIONS.iter().map(|migration| u32::from_be_bytes(*migration.checksum.first_chunk().unwrap()));
        assert_eq!(starts.collect::<Vec<_>>(), [0x16ab_190a, 0x9ceb_52e2, 0xa447_cd48, 0x6bb0_28da]);
    }
}
