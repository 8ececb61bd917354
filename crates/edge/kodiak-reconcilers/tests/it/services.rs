//! Service reconciler over a store: from Dataplanes to MeshServices and their status.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use jiff::SignedDuration;
use kodiak_model::ResourceKey;
use kodiak_reconcilers::{quarantine::Quarantine, run_services};
use kodiak_services::service_status::ServiceSettings;
use kodiak_store::{Expect, Record, Store, StoreError, Transaction, Write};
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::bed::{MESH, delete, put, store, write};

/// Reconciler that runs until it is dropped.
pub(crate) struct Running {
    drain: CancellationToken,
    task: JoinHandle<Result<(), StoreError>>,
}

impl Running {
    pub(crate) fn start(store: &Store, change: impl FnOnce(&mut ServiceSettings)) -> Self {
        let mut settings = ServiceSettings::default();
        change(&mut settings);
        let drain = CancellationToken::new();
        let task = tokio::spawn(run_services(store.clone(), settings, Quarantine::default(), drain.clone()));
        Self { drain, task }
    }

    pub(crate) fn usual(store: &Store) -> Self {
        Self::start(store, |_| ())
    }

    pub(crate) async fn stop(self) {
        self.drain.cancel();
        self.task.await.unwrap().unwrap();
    }
}

pub(crate) async fn put_mesh(store: &Store, mode: &str) {
    put(store, ResourceKey::global("Mesh", MESH), &json!({ "meshServices": { "mode": mode } })).await;
}

fn dataplane(name: &str, service: &str, port: u32) -> Write {
    let inbound = json!([{ "port": port, "tags": { "kuma.io/service": service } }]);
    let spec = json!({ "networking": { "address": "10.0.0.1", "inbound": inbound } });
    write(key("Dataplane", name), &spec)
}

pub(crate) async fn put_dataplane(store: &Store, name: &str, service: &str, port: u32) {
    store.commit(dataplane(name, service, port).into()).await.unwrap();
}

/// Insight with one subscription: open, or closed some time ago.
fn insight(name: &str, ended: Option<SignedDuration>) -> Write {
    let mut subscription = json!({ "id": "1", "connectTime": "2026-01-01T00:00:00Z" });
    if let Some(ago) = ended {
        subscription["disconnectTime"] = json!((jiff::Timestamp::now() - ago).to_string());
    }
    write(key("DataplaneInsight", name), &json!({ "subscriptions": [subscription] }))
}

pub(crate) async fn put_insight(store: &Store, name: &str, ended: Option<SignedDuration>) {
    store.commit(insight(name, ended).into()).await.unwrap();
}

pub(crate) fn key(kind: &str, name: &str) -> ResourceKey {
    ResourceKey::in_mesh(kind, MESH, name)
}

/// Waits until the record matches; `None` when it does not exist.
pub(crate) async fn eventually(
    store: &Store,
    key: &ResourceKey,
    wanted: impl Fn(Option<&Record>) -> bool,
) -> Option<Record> {
    loop {
        let record = store.get(key);
        if wanted(record.as_ref()) {
            return record;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

pub(crate) fn status(record: Option<&Record>) -> Value {
    let text = record.and_then(|record| record.status.as_deref());
    text.map_or(Value::Null, |text| serde_json::from_str(text).unwrap())
}

async fn with_port(store: &Store, port: u32) -> Record {
    let text = format!("\"port\":{port},");
    let has = |record: Option<&Record>| record.is_some_and(|record| record.spec.contains(&text));
    eventually(store, &key("MeshService", "web"), has).await.unwrap()
}

/// Waits for these counts of connected, healthy and all proxies.
async fn with_counts(store: &Store, service: &str, counts: [u32; 3]) -> Record {
    let [connected, healthy, total] = counts;
    let wanted = json!({ "connected": connected, "healthy": healthy, "total": total });
    let has = |record: Option<&Record>| {
        let mut found = json!({ "connected": 0, "healthy": 0, "total": 0 });
        for (key, count) in status(record)["dataplaneProxies"].as_object().into_iter().flatten() {
            found[key] = count.clone();
        }
        record.is_some() && found == wanted
    };
    eventually(store, &key("MeshService", service), has).await.unwrap()
}

/// Waits until all earlier changes are reconciled: a service that is stored after them has its address.
pub(crate) async fn looked_at(store: &Store, marker: &str) {
    put(store, key("MeshService", marker), &json!({ "selector": {} })).await;
    eventually(store, &key("MeshService", marker), |record| status(record)["vips"][0]["ip"].is_string()).await;
}

#[tokio::test]
async fn mesh_service_is_generated_with_counts_address_and_hostname() {
    let store = store().await;
    put_mesh(&store, "Everywhere").await;
    let generator = json!({ "selector": { "meshService": {} }, "template": "{{ .DisplayName }}.svc.mesh.local" });
    put(&store, ResourceKey::global("HostnameGenerator", "local"), &generator).await;
    let running = Running::usual(&store);
    put_dataplane(&store, "a", "web", 80).await;
    put_dataplane(&store, "b", "web", 80).await;
    put_insight(&store, "a", None).await;
    let record = with_counts(&store, "web", [1, 1, 2]).await;
    let spec: Value = serde_json::from_str(&record.spec).unwrap();
    assert_eq!(spec["state"], "Available");
    assert_eq!(spec["identities"], json!([{ "type": "ServiceTag", "value": "web" }]));
    let status = status(Some(&record));
    assert_eq!(status["vips"], json!([{ "ip": "241.0.0.0" }]));
    assert_eq!(status["addresses"][0]["hostname"], "web.svc.mesh.local");
    assert_eq!(status["tls"], json!({ "status": "NotReady" }));
    running.stop().await;
}

#[tokio::test]
async fn generated_mesh_service_keeps_its_status_when_its_ports_change() {
    let store = store().await;
    put_mesh(&store, "Everywhere").await;
    let running = Running::usual(&store);
    put_dataplane(&store, "a", "web", 80).await;
    let first = with_counts(&store, "web", [0, 0, 1]).await;
    put_dataplane(&store, "a", "web", 90).await;
    let second = with_port(&store, 90).await;
    assert_eq!((second.status, second.created), (first.status, first.created));
    running.stop().await;
}

#[tokio::test]
async fn mesh_service_is_deleted_after_its_grace_period_without_other_events() {
    let store = store().await;
    put_mesh(&store, "Exclusive").await;
    put_dataplane(&store, "a", "web", 80).await;
    let running = Running::start(&store, |settings| settings.rules.grace = SignedDuration::from_millis(100));
    with_port(&store, 80).await;
    delete(&store, key("Dataplane", "a")).await;
    eventually(&store, &key("MeshService", "web"), |record| record.is_none()).await;
    running.stop().await;
}

#[tokio::test]
async fn disabled_mode_deletes_generated_services_after_the_grace_period() {
    let store = store().await;
    put_mesh(&store, "Exclusive").await;
    put_dataplane(&store, "a", "web", 80).await;
    let running = Running::start(&store, |settings| settings.rules.disable_grace = SignedDuration::from_millis(300));
    with_port(&store, 80).await;
    put_mesh(&store, "Disabled").await;
    let waits = |record: Option<&Record>| {
        record.is_some_and(|record| record.labels.contains_key("kuma.io/deletion-grace-period-started-at"))
    };
    eventually(&store, &key("MeshService", "web"), waits).await;
    eventually(&store, &key("MeshService", "web"), |record| record.is_none()).await;
    running.stop().await;
}

#[tokio::test]
async fn new_leader_writes_nothing_and_reuses_no_address() {
    let store = store().await;
    put_mesh(&store, "Everywhere").await;
    let running = Running::usual(&store);
    for (name, service) in [("a", "web"), ("b", "web"), ("c", "db")] {
        put_dataplane(&store, name, service, 80).await;
        put_insight(&store, name, None).await;
    }
    let web = with_counts(&store, "web", [2, 2, 2]).await;
    let db = with_counts(&store, "db", [1, 1, 1]).await;
    running.stop().await;
    // No leader observed that the proxies disconnected long ago, nor that a service was deleted.
    put(&store, key("MeshService", "gone"), &json!({ "selector": {} })).await;
    delete(&store, key("MeshService", "gone")).await;
    for name in ["a", "b", "c"] {
        put_insight(&store, name, Some(SignedDuration::from_hours(1))).await;
    }
    let running = Running::usual(&store);
    looked_at(&store, "marker").await;
    assert_eq!(store.get(&web.key).unwrap(), web);
    assert_eq!(store.get(&db.key).unwrap(), db);
    let marker = store.get(&key("MeshService", "marker"));
    assert_eq!(status(marker.as_ref())["vips"][0]["ip"], "241.0.0.2");
    running.stop().await;
    delete(&store, key("MeshService", "marker")).await;
    let running = Running::usual(&store);
    looked_at(&store, "another").await;
    let another = store.get(&key("MeshService", "another"));
    assert_eq!(status(another.as_ref())["vips"][0]["ip"], "241.0.0.3");
    running.stop().await;
}

#[tokio::test]
async fn short_reconnect_is_ignored_but_a_longer_absence_is_not() {
    let store = store().await;
    put_mesh(&store, "Everywhere").await;
    put_dataplane(&store, "a", "web", 80).await;
    put_insight(&store, "a", None).await;
    let running = Running::usual(&store);
    let before = with_counts(&store, "web", [1, 1, 1]).await;
    put_insight(&store, "a", Some(SignedDuration::ZERO)).await;
    looked_at(&store, "one").await;
    put_insight(&store, "a", None).await;
    looked_at(&store, "two").await;
    assert_eq!(store.get(&before.key).unwrap(), before);
    running.stop().await;
    let running = Running::start(&store, |settings| settings.connection_grace = SignedDuration::from_millis(200));
    put_insight(&store, "a", Some(SignedDuration::ZERO)).await;
    let after = with_counts(&store, "web", [0, 0, 1]).await;
    assert!(after.spec.contains("Unavailable"));
    running.stop().await;
}

#[tokio::test]
async fn burst_of_changes_is_a_few_writes() {
    let store = store().await;
    put_mesh(&store, "Everywhere").await;
    let running = Running::usual(&store);
    let mut writes = Vec::new();
    for n in 0..50 {
        writes.extend([dataplane(&format!("p{n}"), "web", 80), insight(&format!("p{n}"), None)]);
    }
    let mut watch = store.watch(store.snapshot().revision()).unwrap();
    store.commit(Transaction(writes)).await.unwrap();
    let record = with_counts(&store, "web", [50, 50, 50]).await;
    let changes = std::iter::from_fn(|| watch.try_next().unwrap()).filter(|change| change.key == record.key);
    assert_eq!(changes.count(), 2, "its spec and its status");
    running.stop().await;
}

/// A leader may not have noticed yet that it lost the lease.
#[tokio::test]
async fn two_concurrent_leaders_do_not_conflict() {
    let store = store().await;
    put_mesh(&store, "Everywhere").await;
    let (one, other) = (Running::usual(&store), Running::usual(&store));
    let names: Vec<String> = (0..300).map(|n| format!("s{n}")).collect();
    for name in &names {
        put_dataplane(&store, &format!("p-{name}"), name, 80).await;
    }
    let mut addresses = BTreeSet::new();
    for name in &names {
        let record = with_counts(&store, name, [0, 0, 1]).await;
        addresses.insert(status(Some(&record))["vips"][0]["ip"].as_str().unwrap().to_owned());
    }
    assert_eq!(addresses.len(), names.len());
    one.stop().await;
    other.stop().await;
}

#[tokio::test]
async fn foreign_status_writes_are_corrected_and_the_address_stays() {
    let store = store().await;
    put_mesh(&store, "Everywhere").await;
    let running = Running::usual(&store);
    put_dataplane(&store, "a", "web", 80).await;
    let record = with_counts(&store, "web", [0, 0, 1]).await;
    let wrong: Arc<str> =
        json!({ "vips": [{ "ip": "241.9.9.9" }], "dataplaneProxies": { "total": 7 } }).to_string().into();
    let write = Write::PutStatus { key: record.key.clone(), status: wrong, expect: Expect::Any };
    store.commit(write.into()).await.unwrap();
    let record = with_counts(&store, "web", [0, 0, 1]).await;
    assert_eq!(status(Some(&record))["vips"], json!([{ "ip": "241.9.9.9" }]));
    running.stop().await;
}
