//! A database that is unavailable, or hangs.

use std::{
    process::Command,
    time::{Duration, Instant},
};

use kodiak_store::{Store, StoreError};
use kodiak_testkit::{disk::SmallDisk, postgres::Server};

use super::{NEVER, agree, bed, connect};
use crate::bed::*;

#[tokio::test(flavor = "multi_thread")]
async fn writes_fail_and_recover_when_the_database_restarts() {
    let Some(mut server) = Server::start() else { return };
    let mut bed = Bed::postgres_on(&server);
    bed.postgres_config().poll_interval = Duration::from_millis(200);
    bed.postgres_config().lease_ttl = Duration::from_secs(1);
    let (one, other) = (bed.open().await, bed.open().await);
    let mut watch = other.watch(0).unwrap();
    write(&one, put("before", "{}")).await;
    assert_eq!(next(&mut watch).await.key, key("before"));

    server.stop().unwrap();
    assert!(matches!(refuse(&one, put("during", "{}")).await, StoreError::Unavailable { .. }));
    assert!(matches!(one.ping().await, Err(StoreError::Unavailable { .. })));
    assert!(one.get(&key("before")).is_some() && one.get(&key("during")).is_none(), "reads go on");
    let leaders = [one.leadership(), other.leadership()];
    eventually("that nobody leads", || leaders.iter().all(|leads| !*leads.borrow())).await;

    server.run().unwrap();
    while one.ping().await.is_err() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    write(&one, put("after", "{}")).await;
    assert_eq!(next(&mut watch).await.key, key("after"));
    agree(&one, &other).await;
    eventually("that one leads", || leaders.iter().any(|leads| *leads.borrow())).await;
    // Both notice by themselves that notifications arrive again.
    write(&other, put("at last", "{}")).await;
    agree(&one, &other).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn unnoticed_restart_fails_no_write() {
    let Some(mut server) = Server::start() else { return };
    let mut bed = Bed::postgres_on(&server);
    bed.postgres_config().poll_interval = NEVER;
    let store = bed.open().await;
    write(&store, put("before", "{}")).await;
    server.stop().unwrap();
    server.run().unwrap();
    write(&store, put("after", "{}")).await;
    assert_eq!(bed.open_again(store).await.len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn locked_database_fails_writes_after_the_timeout() {
    let Some(mut bed) = bed(NEVER) else { return };
    bed.postgres_config().timeout = Duration::from_millis(300);
    let store = bed.open().await;
    let mut hog = connect(bed.postgres_config()).await;
    sqlx::raw_sql("BEGIN; SELECT pg_advisory_xact_lock(7236834721)").execute(&mut hog).await.unwrap();
    let started = Instant::now();
    assert!(matches!(refuse(&store, put("a", "{}")).await, StoreError::Unavailable { .. }));
    assert!(started.elapsed() < Duration::from_secs(5));
    sqlx::raw_sql("ROLLBACK").execute(&mut hog).await.unwrap();
    write(&store, put("a", "{}")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn open_fails_without_a_database() {
    let Some(mut server) = Server::start() else { return };
    let bed = Bed::postgres_on(&server);
    server.stop().unwrap();
    let error = Store::open(bed.config()).await.unwrap_err();
    assert!(matches!(error, StoreError::Unavailable { .. }), "{error:?}");
}

/// Connections stay open and nothing answers, as when the database's host hangs or the network drops packets.
#[tokio::test(flavor = "multi_thread")]
async fn writes_fail_in_time_and_recover_when_the_database_hangs() {
    let Some(server) = Server::start() else { return };
    let mut bed = Bed::postgres_on(&server);
    bed.postgres_config().timeout = Duration::from_millis(500);
    bed.postgres_config().poll_interval = Duration::from_millis(200);
    bed.postgres_config().lease_ttl = Duration::from_secs(1);
    let store = bed.open().await;
    write(&store, put("before", "{}")).await;
    server.hang().unwrap();
    // Without a timeout of its own this would wait forever.
    let refused = tokio::time::timeout(Duration::from_secs(30), refuse(&store, put("during", "{}"))).await;
    assert!(matches!(refused.expect("it ends"), StoreError::Unavailable { .. }));
    assert!(store.health().read_only.is_some() && store.get(&key("before")).is_some(), "reads go on");
    let leads = store.leadership();
    eventually("that nobody leads", || !*leads.borrow()).await;
    let opened = tokio::time::timeout(Duration::from_secs(30), Store::open(bed.config())).await;
    assert!(matches!(opened.expect("it ends"), Err(StoreError::Unavailable { .. })));

    server.wake().unwrap();
    while store.commit(put("after", "{}").into()).await.is_err() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    agree(&store, &bed.open().await).await;
    eventually("that it leads again", || *leads.borrow()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn writes_fail_with_the_reason_and_recover_when_the_database_is_full() {
    let Some(server) = Server::start() else { return };
    let Some(disk) = SmallDisk::mount(64) else { return };
    let space = disk.path().join("space");
    std::fs::create_dir(&space).unwrap();
    let owned = Command::new("chown").arg("nobody:nogroup").arg(&space).status().unwrap();
    assert!(owned.success());
    let mut bed = Bed::postgres_on(&server);
    super::execute(bed.postgres_config(), &format!("CREATE TABLESPACE small LOCATION '{}'", space.display())).await;
    super::execute(bed.postgres_config(), "CREATE DATABASE small TABLESPACE small").await;
    "small".clone_into(&mut bed.postgres_config().database);
    let store = bed.open().await;
    write(&store, put("before", "{}")).await;
    disk.fill().unwrap();
    let noise = |n: u64| -> String {
        // Compressible data would fit.
        let mut seed = n + 1;
        std::iter::repeat_with(|| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            format!("{seed:016x}")
        })
        .take(16 << 10)
        .collect()
    };
    let mut refused = None;
    for n in 0..100 {
        let large = put(&format!("large-{n}"), &format!(r#"{{"text":"{}"}}"#, noise(n)));
        if let Err(error) = store.commit(large.into()).await {
            refused = Some(error.with_causes());
            break;
        }
    }
    let refused = refused.expect("a full database refuses writes");
    assert!(refused.contains("No space left on device"), "{refused}");
    let probe = store.ping().await.unwrap_err().with_causes();
    assert!(probe.contains("No space left on device"), "{probe}");
    assert!(store.health().read_only.is_some() && store.get(&key("before")).is_some(), "reads go on");

    disk.empty().unwrap();
    store.ping().await.unwrap();
    write(&store, put("after", &format!(r#"{{"text":"{}"}}"#, noise(0)))).await;
    assert!(store.health().read_only.is_none());
    agree(&store, &bed.open().await).await;
}
