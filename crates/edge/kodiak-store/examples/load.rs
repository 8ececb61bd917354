//! Measures the file store: `cargo run --release --example load -p kodiak-store [folder]`.

use std::{
    collections::BTreeMap,
    env, fs,
    path::PathBuf,
    time::{Duration, Instant},
};

use kodiak_model::ResourceKey;
use kodiak_store::{Backend, Expect, Store, StoreConfig, StoreError, Transaction, Write};

const RECORDS: usize = 20_000;
const WRITERS: usize = 64;

fn put(n: usize, version: usize) -> Write {
    let spec =
        format!(r#"{{"version":{version},"address":"10.0.{}.{}","text":"{}"}}"#, n / 256, n % 256, "x".repeat(600));
    Write::Put {
        key: ResourceKey::in_mesh("Dataplane", "default", &format!("service-{n:05}")),
        spec: spec.into(),
        labels: BTreeMap::from([("app".into(), format!("service-{}", n / 10)), ("zone".into(), "east".into())]),
        owner: None,
        expect: Expect::Any,
    }
}

#[tokio::main]
async fn main() -> Result<(), StoreError> {
    let folder = env::args_os().nth(1).map_or_else(env::temp_dir, PathBuf::from).join("kodiak-load");
    drop(fs::remove_dir_all(&folder));
    let config = StoreConfig::new(Backend::File { path: folder.join("kodiak.redb") });
    let store = Store::open(config.clone()).await?;

    let started = Instant::now();
    store.commit(Transaction((0..RECORDS).map(|n| put(n, 0)).collect())).await?;
    report("one transaction", RECORDS, started.elapsed());

    let started = Instant::now();
    for n in 0..2_000 {
        store.commit(put(n, 1).into()).await?;
    }
    report("one writer", 2_000, started.elapsed());

    let started = Instant::now();
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let store = store.clone();
            tokio::spawn(async move {
                for n in (writer..RECORDS).step_by(WRITERS) {
                    store.commit(put(n, 2).into()).await?;
                }
                Ok::<_, StoreError>(())
            })
        })
        .collect();
    for writer in writers {
        writer.await.expect("a writer does not panic")?;
    }
    report(&format!("{WRITERS} writers"), RECORDS, started.elapsed());
    // The file that a killed process leaves: it was not closed.
    let crashed = folder.join("crashed.redb");
    fs::copy(folder.join("kodiak.redb"), &crashed).expect("the file can be copied");
    store.close().await;
    drop(store);
    let started = Instant::now();
    let store = Store::open(StoreConfig::new(Backend::File { path: crashed })).await?;
    println!("opened {} records after a crash in {:?}", store.snapshot().len(), started.elapsed());
    store.close().await;
    drop(store);

    let started = Instant::now();
    let store = Store::open(config).await?;
    println!("opened {} records in {:?}", store.snapshot().len(), started.elapsed());
    let started = Instant::now();
    let listed: usize = (0..100).map(|_| store.snapshot().list("Dataplane").count()).sum();
    println!("listed {listed} records in {:?}", started.elapsed());
    store.close().await;
    drop(fs::remove_dir_all(&folder));
    Ok(())
}

fn report(what: &str, writes: usize, took: Duration) {
    println!(
        "{what}: {writes} writes in {took:?}, {} a second, all durable",
        writes as u128 * 1_000_000 / took.as_micros()
    );
}
