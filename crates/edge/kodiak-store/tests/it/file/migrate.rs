//! Files that older versions wrote.

use std::path::Path;

use kodiak_model::ResourceKey;
use kodiak_store::{Backend, Seal, Store, StoreConfig, offline};
use redb::TableDefinition;

use crate::bed::*;

type Key = (&'static str, &'static str, &'static str);
type Columns = (u64, u64, u64, i64, i64, bool, &'static [u8], Option<&'static str>, &'static str, Option<Key>);

/// Schema 1: no checksums, no history. `sealed` is the spec of a Secret at rest.
fn write_schema_1(path: &Path, sealed: &[u8]) {
    let database = redb::Database::create(path).unwrap();
    let transaction = database.begin_write().unwrap();
    {
        let mut meta = transaction.open_table(TableDefinition::<&str, u64>::new("meta")).unwrap();
        for (name, value) in [("schema", 1), ("revision", 7), ("floor", 2)] {
            meta.insert(name, value).unwrap();
        }
        let mut records = transaction.open_table(TableDefinition::<Key, Columns>::new("records")).unwrap();
        let owner = Some(("MeshService", "default", "a"));
        let a = (3, 1, 5, 10, 20, false, &br#"{"a":1}"#[..], Some(r#"{"ok":true}"#), r#"{"l":"v"}"#, None);
        records.insert(("MeshService", "default", "a"), a).unwrap();
        records.insert(("Secret", "default", "s"), (1, 0, 7, 30, 30, true, sealed, None, "{}", owner)).unwrap();
        let mut tombstones = transaction.open_table(TableDefinition::<u64, Key>::new("tombstones")).unwrap();
        tombstones.insert(6, ("MeshService", "default", "gone")).unwrap();
    }
    transaction.commit().unwrap();
}

/// The bytes of a sealed spec, from a backup of a store that has it.
async fn sealed_spec(seal: &Seal) -> Vec<u8> {
    use base64::Engine as _;
    let mut config = StoreConfig::new(Backend::Memory);
    config.seal = Some(seal.clone());
    let store = Store::open(config).await.unwrap();
    let key = ResourceKey::in_mesh("Secret", "default", "s");
    let (labels, owner) = (std::collections::BTreeMap::new(), None);
    let put = kodiak_store::Write::Put {
        key,
        spec: r#"{"data":"eA=="}"#.into(),
        labels,
        owner,
        expect: kodiak_store::Expect::Any,
    };
    write(&store, put).await;
    let text = String::from_utf8(store.backup().flatten().collect()).unwrap();
    let line: serde_json::Value = serde_json::from_str(text.lines().nth(1).unwrap()).unwrap();
    base64::engine::general_purpose::STANDARD.decode(line["record"]["sealed"].as_str().unwrap()).unwrap()
}

#[tokio::test]
async fn file_without_checksums_gets_them_when_it_is_opened() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("kodiak.redb");
    let seal = Seal { key: [3; 32], kinds: vec!["Secret".into()] };
    write_schema_1(&path, &sealed_spec(&seal).await);
    let config = || {
        let mut config = StoreConfig::new(Backend::File { path: path.clone() });
        config.seal = Some(seal.clone());
        config
    };
    let mut found = Vec::new();
    for _ in 0..2 {
        let store = Store::open(config()).await.unwrap();
        let a = store.get(&key("a")).unwrap();
        assert_eq!((&*a.spec, a.status.as_deref()), (r#"{"a":1}"#, Some(r#"{"ok":true}"#)));
        assert_eq!((a.version, a.status_version, a.revision, a.labels["l"].as_str()), (3, 1, 5, "v"));
        let secret = store.get(&ResourceKey::in_mesh("Secret", "default", "s")).unwrap();
        assert_eq!((&*secret.spec, secret.owner), (r#"{"data":"eA=="}"#, Some(key("a"))));
        assert_eq!(store.snapshot().revision(), 7);
        assert_eq!(names(&read_all(&mut store.watch(3).unwrap())), ["a", "-gone", "s"]);
        found.push(all(&store));
        store.close().await;
    }
    assert_eq!(found[0], found[1]);
    let checked = offline::check(&path, Some(seal)).unwrap();
    assert_eq!((checked.records, checked.revision, checked.damaged.len()), (2, 7, 0));
}
