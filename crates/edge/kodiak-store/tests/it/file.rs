//! Behaviours of the file back end only.

mod backup;
mod migrate;

use std::{fs, os::unix::fs::PermissionsExt as _};

use kodiak_store::{Backend, Store, StoreConfig, StoreError};

use crate::{
    bed::*,
    victim::{self, Victim},
};

#[tokio::test]
async fn rejects_a_second_process() {
    let bed = Bed::file();
    let store = bed.open().await;
    let error = Store::open(bed.config()).await.unwrap_err();
    let StoreError::Locked { path } = &error else { panic!("{error:?}") };
    assert!(error.to_string().contains(&*path.to_string_lossy()), "{error}");
    store.close().await;
    bed.open().await;
}

const SUSPENDED: &str = "file::suspended_process_keeps_the_file";

/// Nobody can take over from a suspended process, because it holds the lock of the file: so there is one term.
#[tokio::test(flavor = "multi_thread")]
async fn suspended_process_keeps_the_file() {
    if let Some(path) = victim::place() {
        let config = StoreConfig::new(Backend::File { path: path.into() });
        let leader = Store::open(config).await.unwrap().leader().unwrap();
        victim::say("leads");
        victim::wait().await;
        write(&leader, put("a", "{}")).await;
        return victim::say("written");
    }
    let bed = Bed::file();
    let Backend::File { path } = &bed.backend else { unreachable!() };
    let mut victim = Victim::start(SUSPENDED, &path.to_string_lossy());
    assert_eq!(victim.says(), "leads");
    victim.signal("-STOP");
    assert!(matches!(Store::open(bed.config()).await, Err(StoreError::Locked { .. })));
    victim.go();
    victim.signal("-CONT");
    assert_eq!(victim.says(), "written");
    drop(victim);
    // Once it is killed, the lock is free, and it cannot write any more.
    let store = bed.open().await;
    assert!(store.leader().is_some() && store.get(&key("a")).is_some());
}

#[tokio::test]
async fn file_is_readable_only_by_its_owner() {
    let bed = Bed::file();
    bed.open().await;
    let Backend::File { path } = &bed.backend else { unreachable!() };
    assert_eq!(fs::metadata(path).unwrap().permissions().mode() & 0o777, 0o600);
}

#[tokio::test]
async fn other_files_are_rejected_and_unchanged() {
    let bed = Bed::file();
    let Backend::File { path } = &bed.backend else { unreachable!() };
    fs::write(path, "this is no database").unwrap();
    let error = Store::open(bed.config()).await.unwrap_err();
    assert!(matches!(error, StoreError::File { .. } | StoreError::Corrupt { .. }), "{error:?}");
    assert_eq!(fs::read_to_string(path).unwrap(), "this is no database");
}

#[tokio::test]
async fn rejects_a_newer_schema() {
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
async fn creates_a_missing_folder() {
    let bed = Bed::file();
    let backend = Backend::File { path: bed.path("a/b/kodiak.redb") };
    Store::open(kodiak_store::StoreConfig::new(backend)).await.unwrap();
}
