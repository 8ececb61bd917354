//! A database that goes away, and one that is held up.

use std::time::{Duration, Instant};

use kodiak_store::{Store, StoreError};
use kodiak_testkit::postgres::Server;

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
    // Both notice, without having been asked for anything, that notices come again.
    write(&other, put("at last", "{}")).await;
    agree(&one, &other).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_that_nobody_notices_costs_nothing() {
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
async fn nobody_is_held_up_for_ever() {
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
async fn without_a_database_there_is_no_store() {
    let Some(mut server) = Server::start() else { return };
    let bed = Bed::postgres_on(&server);
    server.stop().unwrap();
    let error = Store::open(bed.config()).await.unwrap_err();
    assert!(matches!(error, StoreError::Unavailable { .. }), "{error:?}");
}
