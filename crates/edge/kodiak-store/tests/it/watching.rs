//! Every change in order, from any revision on, or `Expired`.

use std::time::Duration;

use kodiak_store::{ChangeKind, Store, StoreChange, StoreError};

use crate::bed::*;

pub(crate) async fn changes_come_in_order_under_load(bed: Bed) {
    const WRITERS: usize = 50;
    const WRITES: usize = 20;
    let store = bed.open().await;
    let watchers: Vec<_> = (0..3).map(|_| tokio::spawn(read(store.watch(0).unwrap(), WRITERS * WRITES))).collect();
    let writers = (0..WRITERS).map(|writer| {
        let store = store.clone();
        tokio::spawn(async move {
            for n in 0..WRITES {
                write(&store, put(&format!("w-{writer}"), &format!(r#"{{"n":{n}}}"#))).await;
            }
        })
    });
    for writer in writers.collect::<Vec<_>>() {
        writer.await.unwrap();
    }
    for watcher in watchers {
        let changes = watcher.await.unwrap();
        let revisions: Vec<_> = changes.iter().map(|change| change.revision).collect();
        assert_eq!(revisions, (1..=1000).collect::<Vec<_>>(), "none is left out, none comes twice");
        assert_eq!(replay(&changes), all(&store));
    }
}

async fn read(mut watch: kodiak_store::Watch, count: usize) -> Vec<StoreChange> {
    let mut changes = Vec::new();
    while changes.len() < count {
        changes.push(next(&mut watch).await);
    }
    changes
}

/// a and b are put, b is changed, a is deleted: revisions 1 to 4.
async fn make_history(store: &Store) {
    write(store, put("a", "{}")).await;
    write(store, put("b", "{}")).await;
    write(store, put("b", r#"{"n":1}"#)).await;
    write(store, delete("a")).await;
}

pub(crate) async fn watch_resumes(bed: Bed) {
    let store = bed.open().await;
    make_history(&store).await;
    let expected = ["a", "b", "b", "-a"];
    for after in 0..=4 {
        let changes = read_all(&mut store.watch(after).unwrap());
        assert_eq!(names(&changes), expected[usize::try_from(after).unwrap()..]);
        assert!(changes.iter().all(|change| change.revision > after));
    }
}

pub(crate) async fn watch_resumes_in_another_store(bed: Bed) {
    let store = bed.open().await;
    make_history(&store).await;
    store.close().await;
    if !bed.keeps() {
        return;
    }
    drop(store);
    let store = bed.open().await;
    assert_eq!(names(&read_all(&mut store.watch(1).unwrap())), ["b", "-a"], "the two changes of b are one");
    assert_eq!(names(&read_all(&mut store.watch(3).unwrap())), ["-a"]);
    assert_eq!(names(&read_all(&mut store.watch(0).unwrap())), ["b"], "who never saw a need not hear of its end");

    let mut watch = store.watch(4).unwrap();
    assert!(read_all(&mut watch).is_empty());
    write(&store, put("c", "{}")).await;
    assert_eq!(next(&mut watch).await.revision, 5, "revisions go on where they were");
}

pub(crate) async fn changes_beyond_the_log_are_merged(bed: Bed) {
    let store = bed.open_with(|config| config.log_capacity = 2).await;
    make_history(&store).await;
    assert_eq!(names(&read_all(&mut store.watch(1).unwrap())), ["b", "-a"]);
    let changes = read_all(&mut store.watch(2).unwrap());
    assert_eq!(changes.iter().map(|change| change.revision).collect::<Vec<_>>(), [3, 4]);
}

pub(crate) async fn watch_before_dropped_tombstones_expires(bed: Bed) {
    let few = |config: &mut kodiak_store::StoreConfig| (config.log_capacity, config.tombstone_capacity) = (2, 3);
    let mut store = bed.open_with(few).await;
    for n in 0..5 {
        write(&store, put(&format!("a-{n}"), "{}")).await;
        write(&store, delete(&format!("a-{n}"))).await;
    }
    write(&store, put("b", "{}")).await;
    for _ in 0..2 {
        // Deletions 6, 8 and 10 are stored, that of revision 4 is not.
        for after in 1..4 {
            let expired = store.watch(after).unwrap_err();
            assert!(matches!(expired, StoreError::Expired { after: at, oldest: 4 } if at == after), "{expired:?}");
        }
        assert_eq!(names(&read_all(&mut store.watch(4).unwrap())), ["-a-2", "-a-3", "-a-4", "b"]);
        if bed.keeps() {
            store.close().await;
            drop(store);
            store = bed.open_with(few).await;
        }
    }
}

pub(crate) async fn watch_from_zero_never_expires(bed: Bed) {
    let store = bed.open_with(|config| (config.log_capacity, config.tombstone_capacity) = (1, 1)).await;
    for n in 0..10 {
        write(&store, put(&format!("a-{n}"), "{}")).await;
    }
    let mut watch = store.watch(0).unwrap();
    assert_eq!(&*next(&mut watch).await.key.name, "a-0");
    for n in 5..9 {
        write(&store, delete(&format!("a-{n}"))).await;
    }
    // The watch may have seen a record whose tombstone was dropped.
    assert!(matches!(watch.next().await, Err(StoreError::Expired { .. })));
    let changes = read_all(&mut store.watch(0).unwrap());
    assert_eq!(replay(&changes), all(&store));
}

pub(crate) async fn slow_watcher_blocks_nobody(bed: Bed) {
    let store = bed.open_with(|config| config.log_capacity = 10).await;
    let mut slow = store.watch(0).unwrap();
    for n in 0..300 {
        write(&store, put(&format!("a-{}", n % 7), &format!(r#"{{"n":{n}}}"#))).await;
    }
    write(&store, delete("a-3")).await;
    let changes = read_all(&mut slow);
    assert!(changes.len() <= 7 + 10, "it is told the outcome, not 300 changes");
    assert!(changes.is_sorted_by_key(|change| change.revision));
    assert_eq!(replay(&changes), all(&store));
}

pub(crate) async fn idle_watch_waits(bed: Bed) {
    let store = bed.open().await;
    let mut watch = store.watch(0).unwrap();
    let early = tokio::time::timeout(Duration::from_millis(20), watch.next()).await;
    assert!(early.is_err(), "nothing has changed yet");
    let (change, _) = tokio::join!(next(&mut watch), write(&store, put("a", "{}")));
    assert!(matches!(change.kind, ChangeKind::Put(record) if record.key == key("a")));
    assert_eq!(watch.revision(), 1);
}

pub(crate) async fn watch_from_a_future_revision_expires(bed: Bed) {
    let store = bed.open().await;
    make_history(&store).await;
    assert!(matches!(store.watch(5), Err(StoreError::Expired { after: 5, .. })));
}
