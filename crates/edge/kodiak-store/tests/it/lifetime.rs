//! Opening, closing and reopening.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use kodiak_store::{Expect, Observer, StoreError, Transaction};

use crate::bed::*;

pub(crate) async fn reopened_store_has_all_commits(bed: Bed) {
    let store = bed.open().await;
    write(&store, put("a", r#"{"text":"häß\u0000lich"}"#)).await;
    write(&store, put_owned("b", "a")).await;
    write(&store, put_status("b", r#"{"ready":true}"#)).await;
    write(&store, put("gone", "{}")).await;
    write(&store, delete("gone")).await;
    let before = all(&store);
    assert_eq!(bed.open_again(store).await, before, "to the last field");
}

pub(crate) async fn twenty_thousand_records(bed: Bed) {
    const COUNT: usize = 20_000;
    let store = bed.open().await;
    let spec = format!(r#"{{"text":"{}"}}"#, "x".repeat(500));
    let writes = (0..COUNT).map(|n| put(&format!("service-{n:05}"), &spec)).collect();
    store.commit(Transaction(writes)).await.unwrap();
    store.close().await;
    let store = if bed.keeps() {
        drop(store);
        let started = Instant::now();
        let store = bed.open().await;
        // Far above the typical time, for busy machines; `examples/load.rs` measures.
        assert!(started.elapsed() < Duration::from_secs(5), "opened in {:?}", started.elapsed());
        store
    } else {
        store
    };
    let snapshot = store.snapshot();
    assert_eq!((snapshot.len(), snapshot.list("MeshService").count()), (COUNT, COUNT));
    let kinds: Vec<_> = snapshot.iter().map(|record| &record.key.kind).collect();
    assert!(kinds.windows(2).all(|pair| Arc::ptr_eq(pair[0], pair[1])), "one copy of the name of the kind");
}

pub(crate) async fn closed_store_rejects_writes(bed: Bed) {
    let store = bed.open().await;
    write(&store, put("a", "{}")).await;
    let mut watch = store.watch(0).unwrap();
    store.close().await;
    store.close().await;

    assert!(matches!(refuse(&store, put("a", "{}")).await, StoreError::Unavailable { .. }));
    assert!(matches!(store.ping().await, Err(StoreError::Unavailable { .. })));
    assert!(store.get(&key("a")).is_some(), "reads go on");
    assert_eq!(next(&mut watch).await.revision, 1, "what happened is still told");
    assert!(matches!(watch.next().await, Err(StoreError::Unavailable { .. })), "and then that it is over");
}

pub(crate) async fn queued_writes_are_answered(bed: Bed) {
    let store = bed.open().await;
    let writes: Vec<_> = (0..200)
        .map(|n| {
            let store = store.clone();
            tokio::spawn(async move { store.commit(put(&format!("a-{n}"), "{}").into()).await })
        })
        .collect();
    tokio::task::yield_now().await;
    store.close().await;
    let mut done = 0;
    for written in writes {
        match written.await.unwrap() {
            Ok(_) => done += 1,
            Err(error) => assert!(matches!(error, StoreError::Unavailable { .. }), "{error:?}"),
        }
    }
    assert_eq!(bed.open_again(store).await.len(), done, "exactly what was promised is there");
}

pub(crate) async fn ping_makes_a_durable_write(bed: Bed) {
    let store = bed.open().await;
    let mut watch = store.watch(0).unwrap();
    store.ping().await.unwrap();
    assert_eq!(store.snapshot().revision(), 0);
    assert!(read_all(&mut watch).is_empty());
}

#[derive(Default)]
struct Counter {
    commits: AtomicUsize,
    requests: AtomicUsize,
    changes: AtomicUsize,
}

impl Observer for Counter {
    fn committed(&self, requests: usize, changes: usize, took: Duration) {
        assert!(took < Duration::from_mins(1));
        self.commits.fetch_add(1, Ordering::Relaxed);
        self.requests.fetch_add(requests, Ordering::Relaxed);
        self.changes.fetch_add(changes, Ordering::Relaxed);
    }

    fn failed(&self) {
        panic!("nothing failed");
    }
}

pub(crate) async fn observer_receives_commits(bed: Bed) {
    let counter = Arc::new(Counter::default());
    let store = bed.open_with(|config| config.observer = Some(counter.clone())).await;
    let writes: Vec<_> = (0..100)
        .map(|n| {
            let store = store.clone();
            tokio::spawn(async move { write(&store, put(&format!("a-{n}"), "{}")).await })
        })
        .collect();
    for written in writes {
        written.await.unwrap();
    }
    let Counter { commits, requests, changes } = &*counter;
    assert_eq!((requests.load(Ordering::Relaxed), changes.load(Ordering::Relaxed)), (100, 100));
    assert!(commits.load(Ordering::Relaxed) <= 100);
}

pub(crate) async fn single_instance_is_the_leader(bed: Bed) {
    let store = bed.open().await;
    let mut leadership = store.leadership();
    tokio::time::timeout(Duration::from_secs(20), leadership.wait_for(|leads| *leads)).await.unwrap().unwrap();
}

pub(crate) async fn leader_writes_and_reads(bed: Bed) {
    let store = bed.open().await;
    eventually("that it leads", || store.leader().is_some()).await;
    let leader = store.leader().unwrap();
    write(&leader, put("a", "{}")).await;
    let answers = leader.commit_gathered(vec![put("b", "{}").into(), put_if("a", "{}", Expect::Absent).into()]).await;
    assert!(answers[0].is_ok() && matches!(answers[1], Err(StoreError::Conflict(_))), "{answers:?}");
    assert_eq!(leader.snapshot().len(), 2);
    leader.ping().await.unwrap();
    store.close().await;
    assert!(matches!(refuse(&leader, put("c", "{}")).await, StoreError::Unavailable { .. }));
}
