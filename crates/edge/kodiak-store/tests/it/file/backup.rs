//! Check, backup and restore.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use kodiak_store::{Backend, Store, StoreConfig, StoreError, Transaction, offline};

use crate::bed::*;

fn path_of(bed: &Bed) -> PathBuf {
    let Backend::File { path } = &bed.backend else { unreachable!() };
    path.clone()
}

async fn open(path: &Path) -> Store {
    Store::open(StoreConfig::new(Backend::File { path: path.into() })).await.unwrap()
}

/// Flips a byte of each of these texts in a file.
fn damage(path: &Path, texts: &[&str]) {
    let mut bytes = fs::read(path).unwrap();
    for text in texts {
        let places: Vec<_> =
            (0..bytes.len() - text.len()).filter(|at| bytes[*at..].starts_with(text.as_bytes())).collect();
        assert!(!places.is_empty(), "{text} is in the file");
        for at in places {
            bytes[at] ^= 1;
        }
    }
    fs::write(path, bytes).unwrap();
}

#[tokio::test]
async fn damaged_records_are_listed_and_the_rest_can_be_saved() {
    let bed = Bed::file();
    let path = path_of(&bed);
    let store = bed.open().await;
    for name in ["a", "b", "c"] {
        write(&store, put(name, &format!(r#"{{"text":"content-of-{name}"}}"#))).await;
    }
    assert!(matches!(offline::check(&path, None), Err(StoreError::Locked { .. })), "a control plane has it open");
    store.close().await;
    assert!(offline::check(&path, None).unwrap().damaged.is_empty());

    damage(&path, &["content-of-a", "content-of-c"]);
    let error = Store::open(bed.config()).await.unwrap_err().to_string();
    assert!(error.contains("MeshService/default/a") && error.contains("1 more"), "{error}");
    assert!(error.contains("kodiak store check --path") && error.contains("kodiak store restore"), "{error}");
    let before = fs::read(&path).unwrap();
    let damaged = offline::check(&path, None).unwrap().damaged;
    let named: Vec<_> = damaged.iter().map(|damaged| damaged.what.as_str()).collect();
    assert_eq!(named, ["MeshService/default/a", "MeshService/default/c"]);
    assert!(offline::backup(&path, false).is_err());
    let (backup, left_out) = offline::backup(&path, true).unwrap();
    assert_eq!(left_out.len(), 2);
    let backup: Vec<u8> = backup.flatten().collect();
    assert_eq!(fs::read(&path).unwrap(), before, "looking changes nothing");

    let refused = offline::restore(&backup[..], &path, None, false).unwrap_err();
    assert!(matches!(refused, StoreError::Exists { .. }), "{refused}");
    let restored = offline::restore(&backup[..], &path, None, true).unwrap();
    assert_eq!(fs::read(restored.kept.unwrap()).unwrap(), before, "the old file is kept");
    let saved: Vec<_> = all(&open(&path).await).into_keys().map(|key| key.name.to_string()).collect();
    assert_eq!(saved, ["b"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn backup_under_writes_restores_to_one_revision() {
    let bed = Bed::file();
    let store = bed.open().await;
    for n in 0..200 {
        write(&store, put(&format!("filler-{n}"), &format!(r#"{{"text":"{}"}}"#, "x".repeat(2000)))).await;
    }
    write(&store, delete("filler-7")).await;
    let stop = Arc::new(AtomicBool::new(false));
    // Both of a pair are always written together, with the same number.
    let writer = tokio::spawn({
        let (store, stop) = (store.clone(), stop.clone());
        async move {
            let mut n = 0;
            while !stop.load(Ordering::Relaxed) {
                n += 1;
                let spec = format!(r#"{{"n":{n}}}"#);
                store.commit(Transaction(vec![put("first", &spec), put("second", &spec)])).await.unwrap();
            }
        }
    });
    eventually("that the writer writes", || store.get(&key("first")).is_some()).await;
    for round in 0..5 {
        let mut backup = store.backup();
        let mut bytes = backup.next().unwrap();
        // The rest is read after more was written.
        let read_at = store.snapshot().revision();
        eventually("that more is written", || store.snapshot().revision() > read_at + 10).await;
        bytes.extend(backup.flatten());
        let path = bed.path(&format!("restored-{round}.redb"));
        let restored = offline::restore(&bytes[..], &path, None, false).unwrap();
        assert!(restored.revision <= read_at);
        let checked = offline::check(&path, None).unwrap();
        assert_eq!((checked.revision, checked.damaged.len()), (restored.revision, 0));
        let copy = open(&path).await;
        assert_eq!(copy.snapshot().revision(), restored.revision);
        assert_eq!(spec(&copy, "first"), spec(&copy, "second"));
        assert_eq!(all(&copy).len(), 201);
        assert_eq!(names(&read_all(&mut copy.watch(200).unwrap()))[0], "-filler-7");
        copy.close().await;
    }
    stop.store(true, Ordering::Relaxed);
    writer.await.unwrap();
}

#[tokio::test]
async fn rejects_truncated_or_damaged_backups() {
    let bed = Bed::file();
    let store = bed.open().await;
    for n in 0..5 {
        write(&store, put(&format!("a-{n}"), r#"{"text":"content"}"#)).await;
    }
    let backup: Vec<u8> = store.backup().flatten().collect();
    let path = bed.path("restored.redb");
    for at in (0..backup.len()).step_by(7) {
        let mut damaged = backup.clone();
        damaged[at] ^= 1;
        assert!(offline::restore(&damaged[..], &path, None, false).is_err(), "byte {at}");
        assert!(offline::restore(&backup[..at], &path, None, false).is_err(), "cut off at {at}");
        assert!(!path.exists());
    }
    assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1, "nothing is left behind");
    offline::restore(&backup[..], &path, None, false).unwrap();
    let restored = offline::check(&path, None).unwrap().history;
    store.close().await;
    assert_ne!(restored, offline::check(&path_of(&bed), None).unwrap().history, "a history of its own");
}
