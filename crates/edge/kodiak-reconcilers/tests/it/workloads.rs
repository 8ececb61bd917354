//! Service reconciler over a store: from labels of Dataplanes to Workloads and their status.

use kodiak_model::Labels;
use kodiak_store::{Expect, Record, Store, Write};
use serde_json::{Value, json};

use crate::{
    bed::{delete, put, store, write},
    services::{Running, eventually, key, looked_at, put_insight, put_mesh, status},
};

async fn put_labelled(store: &Store, name: &str, workload: &str) {
    let spec = json!({ "networking": { "address": "10.0.0.1", "inbound": [{ "port": 80 }] } });
    let Write::Put { key, spec, owner, expect, .. } = write(key("Dataplane", name), &spec) else { unreachable!() };
    let labels = Labels::from([("kuma.io/workload".to_owned(), workload.to_owned())]);
    store.commit(Write::Put { key, spec, labels, owner, expect }.into()).await.unwrap();
}

/// Waits for these counts of connected, healthy and all proxies.
async fn with_counts(store: &Store, workload: &str, counts: [u32; 3]) -> Record {
    let [connected, healthy, total] = counts;
    let wanted: Value = json!({ "connected": connected, "healthy": healthy, "total": total });
    let has = |record: Option<&Record>| status(record)["dataplaneProxies"] == wanted;
    eventually(store, &key("Workload", workload), has).await.unwrap()
}

#[tokio::test]
async fn workload_follows_its_dataplanes() {
    let store = store().await;
    put_mesh(&store, "Disabled").await;
    let running = Running::usual(&store);
    put_labelled(&store, "p1", "shop").await;
    let made = with_counts(&store, "shop", [0, 1, 1]).await;
    assert_eq!(made.labels["kuma.io/managed-by"], "workload-generator");
    assert_eq!(&*made.spec, "{}");

    put_insight(&store, "p1", None).await;
    put_labelled(&store, "p2", "shop").await;
    with_counts(&store, "shop", [1, 2, 2]).await;

    delete(&store, key("Dataplane", "p1")).await;
    with_counts(&store, "shop", [0, 1, 1]).await;
    delete(&store, key("Dataplane", "p2")).await;
    eventually(&store, &key("Workload", "shop"), |record| record.is_none()).await;
    running.stop().await;
}

#[tokio::test]
async fn workload_of_a_user_stays_without_dataplanes() {
    let store = store().await;
    put_mesh(&store, "Disabled").await;
    put(&store, key("Workload", "mine"), &json!({})).await;
    let running = Running::usual(&store);
    let before = with_counts(&store, "mine", [0, 0, 0]).await;
    put_labelled(&store, "p1", "mine").await;
    with_counts(&store, "mine", [0, 1, 1]).await;
    delete(&store, key("Dataplane", "p1")).await;
    let after = with_counts(&store, "mine", [0, 0, 0]).await;
    assert_eq!((after.version, &after.labels), (before.version, &before.labels));
    running.stop().await;
}

#[tokio::test]
async fn status_is_written_only_when_the_counts_change() {
    let store = store().await;
    put_mesh(&store, "Disabled").await;
    put_labelled(&store, "p1", "shop").await;
    let running = Running::usual(&store);
    let before = with_counts(&store, "shop", [0, 1, 1]).await;
    // Another label of the Dataplane, and a restart of the reconciler.
    put_labelled(&store, "p1", "shop").await;
    looked_at(&store, "first").await;
    running.stop().await;
    let running = Running::usual(&store);
    looked_at(&store, "second").await;
    let after = store.get(&key("Workload", "shop")).unwrap();
    assert_eq!((after.version, after.status_version), (before.version, before.status_version));
    running.stop().await;
}

#[tokio::test]
async fn deleted_workload_is_generated_again() {
    let store = store().await;
    put_mesh(&store, "Disabled").await;
    put_labelled(&store, "p1", "shop").await;
    let running = Running::usual(&store);
    let first = with_counts(&store, "shop", [0, 1, 1]).await;
    store.commit(Write::Delete { key: key("Workload", "shop"), expect: Expect::Any }.into()).await.unwrap();
    let again = |record: Option<&Record>| {
        record.is_some_and(|record| record.created != first.created && record.status.is_some())
    };
    eventually(&store, &key("Workload", "shop"), again).await;
    running.stop().await;
}
