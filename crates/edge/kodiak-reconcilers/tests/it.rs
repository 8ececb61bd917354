//! The reconcilers over a real store.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use kodiak_model::{Labels, ResourceKey};
use kodiak_reconcilers::{ROLLOUT, Services, VIPS, read, run_mtls, run_services, run_vips};
use kodiak_store::{Backend, Expect, Record, Store, StoreConfig, Write};
use kodiak_views::{rollout::Rollout, vips::Vips};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

const MESH: &str = "default";

async fn store() -> Store {
    Store::open(StoreConfig::new(Backend::Memory)).await.unwrap()
}

async fn put(store: &Store, key: ResourceKey, spec: &Value) {
    let owner = (!key.mesh.is_empty()).then(|| ResourceKey::global("Mesh", &key.mesh));
    let write = Write::Put { key, spec: spec.to_string().into(), labels: Labels::new(), owner, expect: Expect::Any };
    store.commit(write.into()).await.unwrap();
}

async fn put_mesh(store: &Store, enabled: &str) {
    let spec = json!({ "mtls": { "enabledBackend": enabled, "backends": [{ "name": "ca-1", "type": "builtin" }] } });
    put(store, ResourceKey::global("Mesh", MESH), &spec).await;
}

/// A connected proxy that has acknowledged this step.
async fn acknowledge(store: &Store, proxy: &str, step: &str) {
    let connected = json!([{ "id": "1", "connectTime": "2026-01-01T00:00:00Z" }]);
    let spec = json!({ "subscriptions": connected, "mTLS": { "acknowledged": step } });
    put(store, ResourceKey::in_mesh("DataplaneInsight", MESH, proxy), &spec).await;
}

/// Waits until the stored document is as wanted.
async fn eventually<T: serde::de::DeserializeOwned>(store: &Store, name: &str, wanted: impl Fn(&T) -> bool) -> T {
    loop {
        let record = store.get(&ResourceKey::in_mesh("Config", MESH, name));
        if let Some(document) = record.as_ref().and_then(read::<T>).filter(&wanted) {
            return document;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

async fn step(store: &Store, token: &str) {
    eventually::<Rollout>(store, ROLLOUT, |rollout| rollout.token() == token).await;
}

#[tokio::test]
async fn mtls_goes_on_when_all_have_acknowledged_and_not_before() {
    let store = store().await;
    let drain = CancellationToken::new();
    put_mesh(&store, "").await;
    let task = tokio::spawn(run_mtls(store.clone(), drain.clone()));
    step(&store, "").await;
    acknowledge(&store, "a", "").await;
    acknowledge(&store, "b", "").await;
    put_mesh(&store, "ca-1").await;
    let both = "accept=both call=plain signer=ca-1 trust=ca-1";
    step(&store, both).await;
    acknowledge(&store, "a", both).await;
    // One of two is not enough. There is no event to wait for, so give it the time to do wrong.
    tokio::time::sleep(Duration::from_millis(50)).await;
    step(&store, both).await;
    acknowledge(&store, "b", both).await;
    let call = "accept=both call=mtls signer=ca-1 trust=ca-1";
    step(&store, call).await;
    acknowledge(&store, "a", call).await;
    acknowledge(&store, "b", call).await;
    step(&store, "accept=mtls call=mtls signer=ca-1 trust=ca-1").await;
    drain.cancel();
    task.await.unwrap().unwrap();
}

#[tokio::test]
async fn services_get_addresses_that_stay_and_go_with_their_mesh() {
    let store = store().await;
    let drain = CancellationToken::new();
    put_mesh(&store, "").await;
    let names = |names: &[&str]| -> Services {
        let set: BTreeSet<Arc<str>> = names.iter().map(|name| Arc::from(*name)).collect();
        Services::from([(MESH.into(), Arc::new(set))])
    };
    let (services, seen) = watch::channel(names(&["web"]));
    let task = tokio::spawn(run_vips(store.clone(), seen, drain.clone()));
    let first = eventually::<Vips>(&store, VIPS, |vips| vips.get("web").is_some()).await;
    services.send_replace(names(&["backend", "web"]));
    let second = eventually::<Vips>(&store, VIPS, |vips| vips.get("backend").is_some()).await;
    assert_eq!(first.get("web"), second.get("web"));
    assert_ne!(second.get("backend"), second.get("web"));
    store.commit(Write::Delete { key: ResourceKey::global("Mesh", MESH), expect: Expect::Any }.into()).await.unwrap();
    assert!(store.get(&ResourceKey::in_mesh("Config", MESH, VIPS)).is_none());
    // A mesh that is gone gets none.
    services.send_replace(names(&["backend", "other", "web"]));
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert!(store.get(&ResourceKey::in_mesh("Config", MESH, VIPS)).is_none());
    drain.cancel();
    task.await.unwrap();
}

async fn put_dataplane(store: &Store, name: &str, port: u32) {
    let inbound = json!([{ "port": port, "tags": { "kuma.io/service": "web" } }]);
    let spec = json!({ "networking": { "address": "10.0.0.1", "inbound": inbound } });
    put(store, ResourceKey::in_mesh("Dataplane", MESH, name), &spec).await;
}

/// Waits until the MeshService `web` is as wanted; `None` when there is none.
async fn mesh_service(store: &Store, wanted: impl Fn(Option<&Record>) -> bool) -> Option<Record> {
    loop {
        let record = store.get(&ResourceKey::in_mesh("MeshService", MESH, "web"));
        if wanted(record.as_ref()) {
            return record;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

async fn with_port(store: &Store, port: u32) -> Record {
    let text = format!("\"port\":{port},");
    mesh_service(store, |record| record.is_some_and(|record| record.spec.contains(&text))).await.unwrap()
}

#[tokio::test]
async fn a_generated_mesh_service_keeps_its_status_when_its_ports_change() {
    let store = store().await;
    let drain = CancellationToken::new();
    put(&store, ResourceKey::global("Mesh", MESH), &json!({ "meshServices": { "mode": "Everywhere" } })).await;
    let task = tokio::spawn(run_services(store.clone(), "east".to_owned(), Duration::from_hours(1), drain.clone()));
    put_dataplane(&store, "a", 80).await;
    let first = with_port(&store, 80).await;
    let status: Arc<str> = json!({ "vips": [{ "ip": "241.0.0.1" }] }).to_string().into();
    let write = Write::PutStatus { key: first.key.clone(), status: status.clone(), expect: Expect::Any };
    store.commit(write.into()).await.unwrap();
    put_dataplane(&store, "a", 90).await;
    let second = with_port(&store, 90).await;
    assert_eq!((second.status, second.created), (Some(status), first.created));
    drain.cancel();
    task.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_mesh_service_goes_when_its_grace_period_is_over_and_nothing_else_happens() {
    let store = store().await;
    let drain = CancellationToken::new();
    put(&store, ResourceKey::global("Mesh", MESH), &json!({ "meshServices": { "mode": "Exclusive" } })).await;
    put_dataplane(&store, "a", 80).await;
    let task = tokio::spawn(run_services(store.clone(), "east".to_owned(), Duration::from_millis(100), drain.clone()));
    with_port(&store, 80).await;
    let key = ResourceKey::in_mesh("Dataplane", MESH, "a");
    store.commit(Write::Delete { key, expect: Expect::Any }.into()).await.unwrap();
    mesh_service(&store, |record| record.is_none()).await;
    drain.cancel();
    task.await.unwrap().unwrap();
}
