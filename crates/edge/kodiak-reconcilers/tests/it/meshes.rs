//! mTLS rollouts.

use std::time::Duration;

use kodiak_model::ResourceKey;
use kodiak_reconcilers::{quarantine::Quarantine, rollout_status, run_mtls};
use kodiak_rollout::Rollout;
use kodiak_store::Store;
use kodiak_world::document::{self, ROLLOUT};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::bed::{MESH, put, store};

async fn put_mesh(store: &Store, enabled: &str) {
    let spec = json!({ "mtls": { "enabledBackend": enabled, "backends": [{ "name": "ca-1", "type": "builtin" }] } });
    put(store, ResourceKey::global("Mesh", MESH), &spec).await;
}

/// Connected proxy that acknowledged this step.
async fn acknowledge(store: &Store, proxy: &str, step: &str) {
    observe(store, proxy, step, "").await;
}

/// Connected proxy that acknowledged this step and rejects the next.
async fn observe(store: &Store, proxy: &str, step: &str, rejecting: &str) {
    let connected = json!([{ "id": "1", "connectTime": "2026-01-01T00:00:00Z" }]);
    let spec = json!({ "subscriptions": connected, "mTLS": { "acknowledged": step, "rejecting": rejecting } });
    put(store, ResourceKey::in_mesh("DataplaneInsight", MESH, proxy), &spec).await;
}

/// Waits until the stored document matches.
async fn eventually<T: serde::de::DeserializeOwned>(store: &Store, name: &str, wanted: impl Fn(&T) -> bool) -> T {
    loop {
        let snapshot = store.snapshot();
        let stored = snapshot.world().get(&document::key(MESH, name));
        if let Some(document) = stored.and_then(|stored| stored.document::<T>()).filter(&wanted) {
            return document;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

async fn step(store: &Store, token: &str) {
    eventually::<Rollout>(store, ROLLOUT, |rollout| rollout.token() == token).await;
}

#[tokio::test]
async fn rollout_advances_when_all_proxies_acknowledged() {
    let store = store().await;
    let drain = CancellationToken::new();
    put_mesh(&store, "").await;
    let task = tokio::spawn(run_mtls(store.clone(), Quarantine::default(), drain.clone()));
    step(&store, "").await;
    acknowledge(&store, "a", "").await;
    acknowledge(&store, "b", "").await;
    put_mesh(&store, "ca-1").await;
    let both = "accept=both call=plain signer=ca-1 trust=ca-1";
    step(&store, both).await;
    acknowledge(&store, "a", both).await;
    observe(&store, "b", "", "lds: cannot bind").await;
    let waiting = || -> Vec<_> {
        rollout_status(store.snapshot().world(), MESH).unwrap().waiting.iter().map(ToString::to_string).collect()
    };
    assert_eq!(waiting(), ["b (rejected lds: cannot bind)"]);
    // One of two is not enough. No event shows that nothing happens, so this waits for a fault.
    tokio::time::sleep(Duration::from_millis(50)).await;
    step(&store, both).await;
    acknowledge(&store, "b", both).await;
    let call = "accept=both call=mtls signer=ca-1 trust=ca-1";
    step(&store, call).await;
    acknowledge(&store, "a", call).await;
    acknowledge(&store, "b", call).await;
    step(&store, "accept=mtls call=mtls signer=ca-1 trust=ca-1").await;
    assert_eq!(waiting(), [""; 0]);
    drain.cancel();
    task.await.unwrap().unwrap();
}
