//! Store with test resources.

use kodiak_model::{Labels, ResourceKey};
use kodiak_store::{Backend, Expect, Store, StoreConfig, Write};
use serde_json::Value;

pub(crate) const MESH: &str = "default";

pub(crate) async fn store() -> Store {
    Store::open(StoreConfig::new(Backend::Memory)).await.unwrap()
}

pub(crate) fn write(key: ResourceKey, spec: &Value) -> Write {
    let owner = (!key.mesh.is_empty()).then(|| ResourceKey::global("Mesh", &key.mesh));
    Write::Put { key, spec: spec.to_string().into(), labels: Labels::new(), owner, expect: Expect::Any }
}

pub(crate) async fn put(store: &Store, key: ResourceKey, spec: &Value) {
    store.commit(write(key, spec).into()).await.unwrap();
}

pub(crate) async fn delete(store: &Store, key: ResourceKey) {
    store.commit(Write::Delete { key, expect: Expect::Any }.into()).await.unwrap();
}
