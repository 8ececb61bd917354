//! What only the file does.

mod backup;
mod migrate;

use std::{fs, os::unix::fs::PermissionsExt as _};

use kodiak_store::{Backend, Store, StoreError};

use crate::bed::*;

#[tokio::test]
async fn one_process_at_a_time() {
    let bed = Bed::file();
    let store = bed.open().await;
    let error = Store::open(bed.config()).await.unwrap_err();
    let StoreError::Locked { path } = &error else { panic!("{error:?}") };
    assert!(error.to_string().contains(&*path.to_string_lossy()), "{error}");
    store.close().await;
    bed.open().await;
}

#[tokio::test]
async fn the_file_is_for_its_owner_only() {
    let bed = Bed::file();
    bed.open().await;
    let Backend::File { path } = &bed.backend else { unreachable!() };
    assert_eq!(fs::metadata(path).unwrap().permissions().mode() & 0o777, 0o600);
}

#[tokio::test]
async fn something_else_is_refused_and_kept() {
    let bed = Bed::file();
    let Backend::File { path } = &bed.backend else { unreachable!() };
    fs::write(path, "this is no database").unwrap();
    let error = Store::open(bed.config()).await.unwrap_err();
    assert!(matches!(error, StoreError::File { .. } | StoreError::Corrupt { .. }), "{error:?}");
    assert_eq!(fs::read_to_string(path).unwrap(), "this is no database");
}

#[tokio::test]
async fn a_newer_schema_is_refused() {
    let bed = Bed::file();
    bed.open().await.close().await;
    let Backend::File { path } = &bed.backend else { unreachable!() };
    let database = redb::Database::open(path).unwrap();
    let transaction = database.begin_write().unwrap();
    let meta = redb::TableDefinition::<&str, u64>::new("meta");
    transaction.open_table(meta).unwrap().insert("schema", 7).unwrap();
    transaction.commit().unwrap();
    drop(database);
    let error = Store::open(bed.config()).await.unwrap_err();
    assert!(matches!(error, StoreError::NewerSchema { found: 7, known: 2 }), "{error:?}");
}

#[tokio::test]
async fn a_missing_folder_is_made() {
    let bed = Bed::file();
    let backend = Backend::File { path: bed.path("a/b/kodiak.redb") };
    Store::open(kodiak_store::StoreConfig::new(backend)).await.unwrap();
}
