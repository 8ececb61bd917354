//! Checks after a kill.

use std::collections::{BTreeMap, BTreeSet};

use kodiak_model::ResourceKey;
use kodiak_store::{Backend, ChangeKind, Record, Snapshot, Store, StoreConfig};

use crate::{
    payload,
    victim::{TASKS, key},
};

pub(crate) struct Checker {
    backend: Backend,
    revision: u64,
    pub(crate) acknowledged: usize,
    pub(crate) lost: usize,
    pub(crate) torn: usize,
}

impl Checker {
    pub(crate) fn new(backend: Backend) -> Self {
        Self { backend, revision: 0, acknowledged: 0, lost: 0, torn: 0 }
    }

    /// Opens the store after a kill, and compares it with the output of its process.
    pub(crate) fn check(&mut self, said: &[String]) {
        tokio::runtime::Runtime::new().unwrap().block_on(async {
            let store = Store::open(StoreConfig::new(self.backend.clone())).await.unwrap();
            let snapshot = store.snapshot();
            assert!(snapshot.revision() >= self.revision, "revisions only grow");
            self.revision = snapshot.revision();
            self.acknowledged += said.len();
            self.lost += said.iter().filter(|line| is_lost(&store, line)).count();
            self.torn += snapshot.iter().filter(|record| is_torn(record)).count();
            self.torn += (0..TASKS).filter(|task| is_half(&snapshot, *task)).count();
            check_history(&store);
            store.close().await;
        });
    }
}

/// Neither this write nor a later one of the same key is stored.
fn is_lost(store: &Store, line: &str) -> bool {
    let words: Vec<_> = line.splitn(4, ' ').collect();
    let (name, revision): (_, u64) = (words[1], words[2].parse().unwrap());
    match (words[0], store.get(&key(name))) {
        ("put", Some(record)) => record.revision < revision || record.revision == revision && *record.spec != *words[3],
        ("status", Some(record)) => {
            record.revision < revision || record.revision == revision && record.status.as_deref() != Some(words[3])
        }
        ("put" | "status", None) => !was_deleted_after(store, &key(name), revision),
        ("delete", there) => {
            there.as_ref().is_some_and(|record| record.revision < revision)
                || there.is_none() && !was_deleted_after(store, &key(name), revision - 1)
        }
        _ => panic!("{line}"),
    }
}

fn was_deleted_after(store: &Store, key: &ResourceKey, revision: u64) -> bool {
    let Ok(mut watch) = store.watch(revision) else { return false };
    std::iter::from_fn(|| watch.try_next().unwrap())
        .any(|change| change.key == *key && change.kind == ChangeKind::Deleted)
}

fn is_torn(record: &Record) -> bool {
    let whole = |text: &str| payload::open(&record.key.name, text).is_some();
    !whole(&record.spec) || record.status.as_ref().is_some_and(|status| !whole(status))
}

/// One of a pair is stored without the other, or from another transaction.
fn is_half(snapshot: &Snapshot, task: u64) -> bool {
    let number = |name: String| snapshot.get(&key(&name)).and_then(|record| payload::open(&name, &record.spec));
    number(format!("a-{task}")) != number(format!("b-{task}"))
}

/// The history ends with the snapshot, and no revision was assigned twice.
fn check_history(store: &Store) {
    let mut watch = store.watch(0).unwrap();
    let mut records = BTreeMap::new();
    while let Some(change) = watch.try_next().unwrap() {
        match change.kind {
            ChangeKind::Put(record) => drop(records.insert(change.key, record)),
            ChangeKind::Deleted => drop(records.remove(&change.key)),
        }
    }
    let snapshot = store.snapshot();
    assert!(records.values().eq(snapshot.iter()));
    let revisions: BTreeSet<_> = snapshot.iter().map(|record| record.revision).collect();
    assert_eq!(revisions.len(), snapshot.len());
    assert!(revisions.last().is_none_or(|last| *last <= snapshot.revision()));
}
