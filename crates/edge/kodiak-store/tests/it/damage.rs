//! A store file with flipped bytes: it opens with the original content, or fails with an error that names it.

use std::{collections::BTreeMap, fs, path::Path};

use kodiak_model::ResourceKey;
use kodiak_store::{Backend, Expect, Record, Seal, Store, StoreConfig, StoreError, Write};

use crate::bed::*;

/// Approximate number of positions that are tried in each file.
const POSITIONS: usize = 400;

fn config(path: &Path) -> StoreConfig {
    let mut config = StoreConfig::new(Backend::File { path: path.into() });
    config.seal = Some(Seal { key: [9; 32], kinds: vec!["Secret".into()] });
    config
}

/// Records of all shapes: sealed, with status, labels and owner, updated, deleted.
async fn fill(store: &Store) {
    for n in 0..40 {
        write(store, put(&format!("service-{n}"), &format!(r#"{{"text":"{}"}}"#, "x".repeat(n * 7)))).await;
        write(store, put_status(&format!("service-{n}"), r#"{"ok":true}"#)).await;
    }
    let secret = |name: &str| Write::Put {
        key: ResourceKey::in_mesh("Secret", "default", name),
        spec: r#"{"data":"c2VjcmV0"}"#.into(),
        labels: BTreeMap::from([("kuma.io/mesh".to_owned(), "default".to_owned())]),
        owner: Some(key("service-1")),
        expect: Expect::Any,
    };
    write(store, secret("one")).await;
    write(store, secret("two")).await;
    for n in 0..10 {
        write(store, delete(&format!("service-{}", n * 4))).await;
    }
}

/// Everything that a reader of the store sees.
fn content(store: &Store) -> (u64, BTreeMap<ResourceKey, Record>, Vec<String>) {
    let snapshot = store.snapshot();
    let history = store.watch(1).map(|mut watch| names(&read_all(&mut watch))).unwrap_or_default();
    (snapshot.revision(), all(store), history)
}

/// All of the header, and some positions of the rest, most of them in use.
fn positions(bytes: &[u8]) -> Vec<usize> {
    let used: Vec<_> = (320..bytes.len()).filter(|at| bytes[*at] != 0).collect();
    let unused: Vec<_> = (320..bytes.len()).filter(|at| bytes[*at] == 0).collect();
    let some = |all: &[usize], count: usize| -> Vec<usize> {
        all.iter().copied().step_by((all.len() / count).max(1)).collect()
    };
    (0..320).chain(some(&used, POSITIONS)).chain(some(&unused, POSITIONS / 10)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn flipped_byte_is_never_served() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("kodiak.redb");
    let store = Store::open(config(&path)).await.unwrap();
    fill(&store).await;
    store.close().await;
    drop(store);
    let store = Store::open(config(&path)).await.unwrap();
    let expected = content(&store);
    store.close().await;
    drop(store);
    let bytes = fs::read(&path).unwrap();

    let (mut refused, mut harmless, mut wrong) = (0, 0, Vec::new());
    for at in positions(&bytes) {
        for mask in [0x01_u8, 0xff] {
            let mut damaged = bytes.clone();
            damaged[at] ^= mask;
            fs::write(&path, &damaged).unwrap();
            match Store::open(config(&path)).await {
                Ok(store) if content(&store) == expected => {
                    harmless += 1;
                    store.close().await;
                }
                Ok(store) => {
                    wrong.push(format!("byte {at} ^ {mask:#x}: opened with other content, {store:?}"));
                    store.close().await;
                }
                Err(error) if is_named(&error, &path) => refused += 1,
                Err(error) => wrong.push(format!("byte {at} ^ {mask:#x}: {error:?}")),
            }
        }
    }
    println!("{} bytes: {refused} refused, {harmless} harmless, {} wrong", bytes.len(), wrong.len());
    assert!(refused > 100, "{refused} refused");
    assert!(wrong.is_empty(), "{} wrong, such as\n{}", wrong.len(), wrong[..wrong.len().min(20)].join("\n"));
}

/// Whether the error names the file or a record.
fn is_named(error: &StoreError, path: &Path) -> bool {
    let text = error.to_string();
    text.contains(&path.display().to_string()) || text.contains("service-") || text.contains("Secret")
}
