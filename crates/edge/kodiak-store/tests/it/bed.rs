//! A place for a store, and helpers for tests.

use std::{collections::BTreeMap, path::PathBuf, sync::Arc, time::Duration};

use kodiak_model::ResourceKey;
use kodiak_store::{
    Backend, ChangeKind, Expect, PostgresConfig, Record, Store, StoreChange, StoreConfig, StoreError, Watch, Write,
    Written,
};
use kodiak_testkit::postgres;
use tempfile::TempDir;

/// Where a store can be opened and reopened.
pub(crate) struct Bed {
    pub(crate) backend: Backend,
    folder: TempDir,
}

impl Bed {
    pub(crate) fn memory() -> Self {
        Self { backend: Backend::Memory, folder: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn file() -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self { backend: Backend::File { path: folder.path().join("kodiak.redb") }, folder }
    }

    pub(crate) fn postgres() -> Option<Self> {
        Some(Self::postgres_on(postgres::shared()?))
    }

    /// A new database on a server.
    pub(crate) fn postgres_on(server: &postgres::Server) -> Self {
        let config = PostgresConfig {
            host: postgres::HOST.into(),
            port: server.port(),
            user: postgres::USER.into(),
            database: server.create_database().unwrap(),
            ..PostgresConfig::default()
        };
        Self { backend: Backend::Postgres(config), folder: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn postgres_config(&mut self) -> &mut PostgresConfig {
        let Backend::Postgres(config) = &mut self.backend else { panic!("not on PostgreSQL") };
        config
    }

    /// A path for other files of a test.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Whether a reopened store has earlier commits.
    pub(crate) fn keeps(&self) -> bool {
        !matches!(self.backend, Backend::Memory)
    }

    pub(crate) fn config(&self) -> StoreConfig {
        StoreConfig::new(self.backend.clone())
    }

    pub(crate) async fn open(&self) -> Store {
        self.open_with(|_| ()).await
    }

    pub(crate) async fn open_with(&self, change: impl FnOnce(&mut StoreConfig)) -> Store {
        let mut config = self.config();
        change(&mut config);
        Store::open(config).await.unwrap()
    }
}

pub(crate) fn key(name: &str) -> ResourceKey {
    ResourceKey::in_mesh("MeshService", "default", name)
}

pub(crate) fn put(name: &str, spec: &str) -> Write {
    put_if(name, spec, Expect::Any)
}

pub(crate) fn put_if(name: &str, spec: &str, expect: Expect) -> Write {
    Write::Put { key: key(name), spec: spec.into(), labels: BTreeMap::new(), owner: None, expect }
}

pub(crate) fn put_owned(name: &str, owner: &str) -> Write {
    Write::Put {
        key: key(name),
        spec: "{}".into(),
        labels: BTreeMap::new(),
        owner: Some(key(owner)),
        expect: Expect::Any,
    }
}

pub(crate) fn put_status(name: &str, status: &str) -> Write {
    Write::PutStatus { key: key(name), status: status.into(), expect: Expect::Any }
}

pub(crate) fn delete(name: &str) -> Write {
    Write::Delete { key: key(name), expect: Expect::Any }
}

/// One write that must succeed.
pub(crate) async fn write(store: &Store, write: Write) -> Written {
    store.commit(write.into()).await.unwrap()
}

/// One write that must fail.
pub(crate) async fn refuse(store: &Store, write: Write) -> StoreError {
    store.commit(write.into()).await.unwrap_err()
}

pub(crate) async fn next(watch: &mut Watch) -> StoreChange {
    tokio::time::timeout(Duration::from_secs(20), watch.next()).await.expect("a change comes").unwrap()
}

/// Reads all changes that are available.
pub(crate) fn read_all(watch: &mut Watch) -> Vec<StoreChange> {
    std::iter::from_fn(|| watch.try_next().unwrap()).collect()
}

/// The records after these changes.
pub(crate) fn replay(changes: &[StoreChange]) -> BTreeMap<ResourceKey, Record> {
    let mut records = BTreeMap::new();
    for change in changes {
        match &change.kind {
            ChangeKind::Put(record) => drop(records.insert(change.key.clone(), record.clone())),
            ChangeKind::Deleted => drop(records.remove(&change.key)),
        }
    }
    records
}

pub(crate) fn all(store: &Store) -> BTreeMap<ResourceKey, Record> {
    store.snapshot().iter().map(|record| (record.key.clone(), record.clone())).collect()
}

/// `name` for a put, `-name` for a deletion.
pub(crate) fn names(changes: &[StoreChange]) -> Vec<String> {
    let sign = |change: &StoreChange| if change.kind == ChangeKind::Deleted { "-" } else { "" };
    changes.iter().map(|change| format!("{}{}", sign(change), change.key.name)).collect()
}

pub(crate) fn spec(store: &Store, name: &str) -> Arc<str> {
    store.get(&key(name)).unwrap().spec
}

/// Waits for a condition.
pub(crate) async fn eventually(what: &str, condition: impl Fn() -> bool) {
    let patience = Duration::from_secs(20);
    let met = async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(patience, met).await.unwrap_or_else(|_| panic!("{what} did not happen within {patience:?}"));
}

impl Bed {
    /// Closes a store, and returns the content of another one at the same place. For memory, the content before.
    pub(crate) async fn open_again(&self, store: Store) -> BTreeMap<ResourceKey, Record> {
        store.close().await;
        if !self.keeps() {
            return all(&store);
        }
        drop(store);
        all(&self.open().await)
    }
}
