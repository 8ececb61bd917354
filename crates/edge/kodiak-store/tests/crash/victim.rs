//! The process that is killed: many tasks that write, and print each acknowledged write.
//!
//! Each task has four keys of its own, and a pair: `a`, and `b` which `a` owns. A pair is only ever written together.

use std::{
    collections::BTreeMap,
    io::{Write as _, stdout},
};

use kodiak_model::ResourceKey;
use kodiak_store::{Backend, Expect, Store, StoreConfig, StoreError, Transaction, Write, Written};

use crate::payload::{Random, spec};

pub(crate) const TASKS: u64 = 12;

pub(crate) fn key(name: &str) -> ResourceKey {
    ResourceKey::in_mesh("MeshService", "default", name)
}

pub(crate) fn run(backend: Backend) {
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        let store = Store::open(StoreConfig::new(backend)).await.unwrap();
        let tasks: Vec<_> = (0..TASKS).map(|task| tokio::spawn(write_for_ever(store.clone(), task))).collect();
        for task in tasks {
            task.await.unwrap();
        }
    });
}

async fn write_for_ever(store: Store, task: u64) {
    let mut random = Random::new();
    // Numbers are never repeated, over all runs of this process.
    let first = store.snapshot().revision();
    for n in first.. {
        let single = format!("s-{task}-{}", random.below(4));
        let pair = [format!("a-{task}"), format!("b-{task}")];
        let weight = random.below(3_000);
        let writes = match random.below(10) {
            0..4 => vec![put(&single, n, weight, None)],
            4..6 => {
                vec![Write::PutStatus { key: key(&single), status: spec(&single, n, 10).into(), expect: Expect::Any }]
            }
            6 => vec![Write::Delete { key: key(&single), expect: Expect::Any }],
            7..9 => vec![put(&pair[0], n, weight, None), put(&pair[1], n, weight, Some(&pair[0]))],
            _ => vec![Write::Delete { key: key(&pair[0]), expect: Expect::Any }],
        };
        match store.commit(Transaction(writes.clone())).await {
            Ok(written) => writes.iter().enumerate().for_each(|(at, write)| acknowledge(write, &written, at)),
            Err(StoreError::NotFound(_)) => (), // of a delete or a status, now and then
            Err(error) => panic!("{error:?}"),
        }
    }
}

fn put(name: &str, n: u64, weight: u64, owner: Option<&str>) -> Write {
    Write::Put {
        key: key(name),
        spec: spec(name, n, weight).into(),
        labels: BTreeMap::new(),
        owner: owner.map(key),
        expect: Expect::Any,
    }
}

/// `put NAME REVISION SPEC` or `status NAME REVISION STATUS` or `delete NAME REVISION`.
fn acknowledge(write: &Write, written: &Written, at: usize) {
    let record = written.records[at].as_ref();
    let revision = record.map_or(written.revision, |record| record.revision);
    match write {
        Write::Put { key, spec, .. } => say(&format!("put {} {revision} {spec}", key.name)),
        Write::PutStatus { key, status, .. } => say(&format!("status {} {revision} {status}", key.name)),
        Write::Delete { key, .. } => say(&format!("delete {} {revision}", key.name)),
        Write::Require { .. } | Write::RequireStatus { .. } => (), // it is no change
    }
}

/// Writes the whole line at once, and flushes it.
fn say(line: &str) {
    let mut stdout = stdout().lock();
    writeln!(stdout, "{line}").unwrap();
    stdout.flush().unwrap();
}
