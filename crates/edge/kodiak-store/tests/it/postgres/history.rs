//! A database that comes back with another history: after a failover that lost commits, or after a restore.

use std::time::Duration;

use kodiak_store::Store;
use kodiak_testkit::postgres::Server;

use super::agree;
use crate::bed::*;

fn quick(server: &Server) -> Bed {
    let mut bed = Bed::postgres_on(server);
    bed.postgres_config().poll_interval = Duration::from_millis(200);
    bed.postgres_config().lease_ttl = Duration::from_secs(1);
    bed
}

async fn until_writable(store: &Store) {
    while store.ping().await.is_err() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn lost_commits_are_reverted_one_by_one() {
    let Some(mut server) = Server::start() else { return };
    let bed = quick(&server);
    let store = bed.open().await;
    let mut watch = store.watch(0).unwrap();
    for name in ["a", "b", "c"] {
        write(&store, put(name, "{}")).await;
    }
    server.stop().unwrap();
    server.save("before").unwrap();
    let expected = all(&store);
    server.run().unwrap();
    until_writable(&store).await;
    write(&store, put("d", "{}")).await;
    write(&store, put("b", r#"{"lost":true}"#)).await;
    write(&store, delete("a")).await;
    assert_eq!(names(&read_all(&mut watch)), ["a", "b", "c", "d", "b", "-a"]);

    server.stop().unwrap();
    server.put_back("before").unwrap();
    server.run().unwrap();
    eventually("that the store is as its database", || all(&store) == expected).await;
    assert_eq!(names(&read_all(&mut watch)), ["-d", "a", "b"], "the difference and nothing else");
    assert_eq!(store.snapshot().revision(), 3);
    // It continues from there, and so do watches.
    let written = write(&store, put("e", "{}")).await;
    assert_eq!(written.revision, 4);
    assert_eq!(next(&mut watch).await.key, key("e"));
    agree(&store, &bed.open().await).await;
    let mut leads = store.leadership();
    let led = tokio::time::timeout(Duration::from_secs(20), leads.wait_for(|leads| *leads));
    led.await.expect("the lease is taken again").unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn other_history_is_detected_after_writes_past_the_lost_revisions() {
    let Some(mut server) = Server::start() else { return };
    let mut bed = quick(&server);
    let store = bed.open().await;
    for name in ["a", "b"] {
        write(&store, put(name, "{}")).await;
    }
    server.stop().unwrap();
    server.save("before").unwrap();
    server.run().unwrap();
    until_writable(&store).await;
    write(&store, put("lost", "{}")).await;
    write(&store, put("b", r#"{"lost":true}"#)).await;
    let mut watch = store.watch(0).unwrap();
    let mut seen = read_all(&mut watch);

    // While the first store cannot see it, another one writes from the earlier point, past its revision.
    server.stop().unwrap();
    server.put_back("before").unwrap();
    let port = server.hide().unwrap();
    server.run().unwrap();
    let mut elsewhere = bed.postgres_config().clone();
    elsewhere.port = server.port();
    let other = Store::open(kodiak_store::StoreConfig::new(kodiak_store::Backend::Postgres(elsewhere))).await.unwrap();
    for n in 0..4 {
        write(&other, put(&format!("other-{n}"), "{}")).await;
    }
    let expected = all(&other);
    assert!(other.snapshot().revision() > store.snapshot().revision());
    other.close().await;
    server.stop().unwrap();
    server.show(port);
    server.run().unwrap();

    eventually("that the store is as its database", || all(&store) == expected).await;
    seen.extend(read_all(&mut watch));
    assert_eq!(replay(&seen), expected);
    // A write is decided on the current state.
    until_writable(&store).await;
    let version = expected[&key("other-0")].version;
    let written = write(&store, put("other-0", r#"{"n":1}"#)).await;
    assert_eq!(written.records[0].as_ref().unwrap().version, version + 1);
}
