//! A stored resource that panics the reconciler.

use kodiak_model::{Labels, ResourceKey};
use kodiak_store::{Backend, Expect, StoreConfig, Write};
use serde_json::{Value, json};

use super::*;

const MESH: &str = "default";

/// Called with every resource that the reconciler applies.
pub(super) fn panic_at(key: &ResourceKey) {
    assert!(&*key.name != "poisoned", "{key} is poisoned");
}

async fn put(store: &Store, key: ResourceKey, spec: &Value) {
    let owner = (!key.mesh.is_empty()).then(|| ResourceKey::global("Mesh", &key.mesh));
    let spec = spec.to_string().into();
    store.commit(Write::Put { key, spec, labels: Labels::new(), owner, expect: Expect::Any }.into()).await.unwrap();
}

async fn until(what: &str, holds: impl Fn() -> bool) {
    for _ in 0..6000 {
        if holds() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("not in a minute: {what}");
}

fn dataplane(service: &str) -> Value {
    let inbound = json!({ "port": 80, "tags": { "kuma.io/service": service, "kuma.io/protocol": "http" } });
    json!({ "networking": { "address": "10.0.0.1", "inbound": [inbound] } })
}

#[tokio::test]
async fn faulty_resource_is_quarantined_and_all_others_are_reconciled() {
    let store = Store::open(StoreConfig::new(Backend::Memory)).await.unwrap();
    put(&store, ResourceKey::global("Mesh", MESH), &json!({ "meshServices": { "mode": "Everywhere" } })).await;
    put(&store, ResourceKey::in_mesh("Dataplane", MESH, "web-1"), &dataplane("web")).await;
    // Stored before the start: without a quarantine it would end the process at every start.
    let poisoned = ResourceKey::in_mesh("Dataplane", MESH, "poisoned");
    put(&store, poisoned.clone(), &dataplane("bad")).await;
    let (quarantine, drain) = (Quarantine::default(), CancellationToken::new());
    let mut task = tokio::task::JoinSet::new();
    task.spawn(run(store.clone(), ServiceSettings::default(), quarantine.clone(), drain.clone()));

    let service = |name: &str| store.get(&ResourceKey::in_mesh("MeshService", MESH, name));
    until("the MeshService of the other Dataplane exists", || service("web").is_some()).await;
    let held = quarantine.list();
    assert_eq!(held.len(), 1, "{held:?}");
    assert_eq!((&held[0].0, held[0].1), (&poisoned, TASK));
    assert_eq!(held[0].2.panicked.0, format!("{poisoned} is poisoned"));
    assert!(service("bad").is_none());

    // The reconciler continues after another panic.
    put(&store, poisoned.clone(), &dataplane("worse")).await;
    put(&store, ResourceKey::in_mesh("Dataplane", MESH, "api-1"), &dataplane("api")).await;
    until("a later MeshService exists", || service("api").is_some()).await;
    assert!(service("worse").is_none() && quarantine.list()[0].2.revision > held[0].2.revision);
    store.commit(Write::Delete { key: poisoned, expect: Expect::Any }.into()).await.unwrap();
    until("the quarantine is empty", || quarantine.list().is_empty()).await;
    drain.cancel();
    while let Some(ended) = task.join_next().await {
        ended.unwrap().unwrap();
    }
}
