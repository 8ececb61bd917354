//! A full file system, and a read-only one.

use kodiak_store::{Backend, Store, StoreConfig, Write};
use kodiak_testkit::disk::SmallDisk;

use crate::bed::*;

fn config(disk: &SmallDisk) -> StoreConfig {
    StoreConfig::new(Backend::File { path: disk.path().join("kodiak.redb") })
}

/// Half a mebibyte.
fn large(name: &str) -> Write {
    put(name, &format!(r#"{{"text":"{}"}}"#, "x".repeat(512 << 10)))
}

/// Writes to a full disk until one fails: the first ones may fit into existing pages.
async fn write_until_refused(store: &Store) -> String {
    for n in 0..64 {
        if let Err(error) = store.commit(large(&format!("large-{n}")).into()).await {
            return error.with_causes();
        }
    }
    panic!("a full disk refuses writes");
}

#[tokio::test(flavor = "multi_thread")]
async fn full_disk_rejects_writes_with_the_reason_and_recovers() {
    let Some(disk) = SmallDisk::mount(16) else { return };
    let store = Store::open(config(&disk)).await.unwrap();
    write(&store, put("before", "{}")).await;
    disk.fill().unwrap();
    let refused = write_until_refused(&store).await;
    assert!(refused.contains("No space left on device") && refused.contains("free space"), "{refused}");
    let seen = store.health().read_only.expect("writes fail").with_causes();
    assert!(seen.contains("No space left on device"), "{seen}");
    let probe = store.ping().await.unwrap_err().with_causes();
    assert!(probe.contains("No space left on device"), "{probe}");
    let known = all(&store);
    assert!(known.contains_key(&key("before")), "reads go on");

    disk.empty().unwrap();
    write(&store, large("after")).await;
    assert!(store.health().read_only.is_none() && store.ping().await.is_ok());
    assert!(known.iter().all(|(key, record)| store.get(key).as_ref() == Some(record)), "nothing is lost");
    let expected = all(&store);
    store.close().await;
    drop(store);
    assert_eq!(all(&Store::open(config(&disk)).await.unwrap()), expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn full_disk_is_detected_before_a_write_fails() {
    let Some(disk) = SmallDisk::mount(16) else { return };
    let store = Store::open(config(&disk)).await.unwrap();
    write(&store, put("before", "{}")).await;
    store.ping().await.unwrap();
    disk.fill().unwrap();
    let probe = store.ping().await.unwrap_err().with_causes();
    assert!(probe.contains("No space left on device"), "{probe}");
    disk.empty().unwrap();
    store.ping().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn read_only_file_system_rejects_writes_with_the_reason_and_recovers() {
    let Some(disk) = SmallDisk::mount(16) else { return };
    let store = Store::open(config(&disk)).await.unwrap();
    write(&store, put("before", "{}")).await;
    // The first failure closes the file, so that the file system can become read-only.
    disk.fill().unwrap();
    write_until_refused(&store).await;
    disk.empty().unwrap();
    disk.make_read_only().unwrap();
    let refused = refuse(&store, put("during", "{}")).await.with_causes();
    assert!(refused.contains("Read-only file system") && refused.contains("read-write"), "{refused}");
    assert!(store.get(&key("before")).is_some(), "reads go on");
    assert!(store.health().read_only.is_some());

    disk.make_writable().unwrap();
    write(&store, put("after", "{}")).await;
    assert!(store.health().read_only.is_none());
    let expected = all(&store);
    store.close().await;
    drop(store);
    disk.make_read_only().unwrap();
    let refused = Store::open(config(&disk)).await.unwrap_err().with_causes();
    assert!(refused.contains("Read-only file system"), "{refused}");
    disk.make_writable().unwrap();
    assert_eq!(all(&Store::open(config(&disk)).await.unwrap()), expected);
}
