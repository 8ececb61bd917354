//! Several control planes that share a database.

mod fencing;
mod history;
mod lease;
mod outage;
mod tls;

use std::time::Duration;

use kodiak_store::{Expect, PostgresConfig, Store, StoreError, Watch};
use sqlx::{AssertSqlSafe, Connection as _, PgConnection};

use crate::bed::*;

const NEVER: Duration = Duration::from_hours(1);

/// A database in which only notifications are effective, or only polls.
fn bed(poll_interval: Duration) -> Option<Bed> {
    let mut bed = Bed::postgres()?;
    bed.postgres_config().poll_interval = poll_interval;
    Some(bed)
}

/// A separate connection.
async fn connect(config: &PostgresConfig) -> PgConnection {
    let PostgresConfig { user, host, port, database, .. } = config;
    PgConnection::connect(&format!("postgres://{user}@{host}:{port}/{database}")).await.unwrap()
}

/// Changes the database without any store knowing.
async fn execute(config: &PostgresConfig, sql: &str) {
    sqlx::raw_sql(AssertSqlSafe(sql.to_owned())).execute(&mut connect(config).await).await.unwrap();
}

async fn agree(one: &Store, other: &Store) {
    eventually("that both stores are as far", || one.snapshot().revision() == other.snapshot().revision()).await;
    assert_eq!(all(one), all(other));
}

#[tokio::test(flavor = "multi_thread")]
async fn both_see_all_changes_in_the_same_order() {
    const WRITES: usize = 150;
    let Some(bed) = bed(NEVER) else { return };
    let stores = [bed.open().await, bed.open().await];
    let watches: Vec<_> =
        stores.iter().map(|store| tokio::spawn(follow(store.watch(0).unwrap(), 2 * 4 * WRITES))).collect();
    let mut writers = Vec::new();
    for (side, store) in stores.iter().enumerate() {
        for writer in 0..4 {
            let store = store.clone();
            writers.push(tokio::spawn(async move {
                for n in 0..WRITES {
                    write(&store, put(&format!("a-{side}-{writer}-{n}"), "{}")).await;
                }
            }));
        }
    }
    for writer in writers {
        writer.await.unwrap();
    }
    let mut orders = Vec::new();
    for watch in watches {
        orders.push(watch.await.unwrap());
    }
    assert_eq!(orders[0], orders[1]);
    agree(&stores[0], &stores[1]).await;
}

async fn follow(mut watch: Watch, count: usize) -> Vec<(u64, String)> {
    let mut order = Vec::new();
    while order.len() < count {
        let change = next(&mut watch).await;
        order.push((change.revision, change.key.to_string()));
    }
    order
}

#[tokio::test(flavor = "multi_thread")]
async fn watches_of_both_stores_end_with_the_same_state() {
    let Some(bed) = bed(NEVER) else { return };
    let (one, other) = (bed.open().await, bed.open().await);
    let mut watch = other.watch(0).unwrap();
    for n in 0..100 {
        write(&one, put(&format!("a-{}", n % 5), &format!(r#"{{"n":{n}}}"#))).await;
        if n % 10 == 9 {
            write(&one, delete(&format!("a-{}", n % 5))).await;
        }
    }
    agree(&one, &other).await;
    let changes = read_all(&mut watch);
    assert!(changes.is_sorted_by_key(|change| change.revision));
    assert_eq!(replay(&changes), all(&one), "some changes of one key may come as one");
}

#[tokio::test(flavor = "multi_thread")]
async fn race_has_one_winner() {
    let Some(bed) = bed(NEVER) else { return };
    let stores = [bed.open().await, bed.open().await];
    for round in 0..40 {
        let create = put_if("a", "{}", Expect::Absent);
        let update = |n: usize| put_if("a", &format!(r#"{{"round":{round},"by":{n}}}"#), Expect::Version(round));
        let race = |n: usize| {
            let write = if round == 0 { create.clone() } else { update(n) };
            stores[n].commit(write.into())
        };
        let (one, other) = tokio::join!(race(0), race(1));
        let lost = match (one, other) {
            (Ok(_), Err(lost)) | (Err(lost), Ok(_)) => lost,
            both => panic!("round {round}: {both:?}"),
        };
        assert!(matches!(lost, StoreError::Conflict(_)), "{lost:?}");
        assert_eq!(stores[0].get(&key("a")).map(|record| record.version), Some(round + 1));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn poll_finds_changes_without_notification() {
    let Some(mut bed) = bed(Duration::from_millis(100)) else { return };
    let store = bed.open().await;
    let mut watch = store.watch(0).unwrap();
    let behind_the_back = "
        INSERT INTO kodiak_record VALUES ('MeshService', 'default', 'a', '{}', false, NULL, '{}', NULL, NULL, NULL, 1, 0, 1, 0, 0);
        UPDATE kodiak_head SET revision = 1";
    execute(bed.postgres_config(), behind_the_back).await;
    assert_eq!(next(&mut watch).await.key, key("a"));
}

#[tokio::test(flavor = "multi_thread")]
async fn lost_listener_reconnects() {
    let Some(mut bed) = bed(NEVER) else { return };
    let (one, other) = (bed.open().await, bed.open().await);
    let mut watch = one.watch(0).unwrap();
    write(&other, put("before", "{}")).await;
    assert_eq!(next(&mut watch).await.key, key("before"));

    let cut = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
        WHERE datname = current_database() AND query LIKE 'LISTEN%'";
    execute(bed.postgres_config(), cut).await;
    write(&other, put("meanwhile", "{}")).await;
    assert_eq!(next(&mut watch).await.key, key("meanwhile"));
    write(&other, put("after", "{}")).await;
    assert_eq!(next(&mut watch).await.key, key("after"));
}

#[tokio::test(flavor = "multi_thread")]
async fn store_that_is_too_far_behind_reloads_and_its_watches_get_the_difference() {
    let Some(mut bed) = bed(NEVER) else { return };
    let store = bed.open().await;
    write(&store, put("a", "{}")).await;
    let mut watch = store.watch(1).unwrap();
    // Others deleted it and much more, so that the tombstone was dropped.
    let behind_the_back = "DELETE FROM kodiak_record; UPDATE kodiak_head SET revision = 500, floor = 499";
    execute(bed.postgres_config(), behind_the_back).await;

    let written = write(&store, put_if("b", "{}", Expect::Absent)).await;
    assert_eq!((written.revision, all(&store).len()), (501, 1));
    assert_eq!(names(&read_all(&mut watch)), ["-a", "b"]);
    assert!(matches!(store.watch(1), Err(StoreError::Expired { after: 1, oldest: 499 })));
    assert_eq!(names(&read_all(&mut store.watch(0).unwrap())), ["b"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn rejects_a_newer_schema() {
    let Some(mut bed) = bed(NEVER) else { return };
    bed.open().await.close().await;
    let from_the_future = "INSERT INTO _sqlx_migrations VALUES (77, 'future', now(), true, '', 0)";
    execute(bed.postgres_config(), from_the_future).await;
    let error = Store::open(bed.config()).await.unwrap_err();
    assert!(matches!(error, StoreError::NewerSchema { found: 77, known: 4 }), "{error:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn many_instances_can_start_at_once() {
    let Some(bed) = bed(NEVER) else { return };
    let (one, two, three) = tokio::join!(bed.open(), bed.open(), bed.open());
    write(&one, put("a", "{}")).await;
    agree(&one, &two).await;
    agree(&one, &three).await;
}
