//! mTLS rollouts.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use kodiak_model::ResourceKey;
use kodiak_reconcilers::{AbsenceLimits, Moment, quarantine::Quarantine, rollout_status, run_mtls};
use kodiak_rollout::{Rollout, RolloutRecord};
use kodiak_store::Store;
use kodiak_world::document::{self, IDENTITIES, ROLLOUT};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::bed::{MESH, put, store};

fn moment() -> Moment {
    Moment { now: Timestamp::now(), limits: AbsenceLimits::default() }
}

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
    let task = tokio::spawn(run_mtls(store.clone(), Quarantine::default(), AbsenceLimits::default(), drain.clone()));
    step(&store, "").await;
    acknowledge(&store, "a", "").await;
    acknowledge(&store, "b", "").await;
    put_mesh(&store, "ca-1").await;
    let both = "accept=both call=plain signer=ca-1 trust=ca-1";
    step(&store, both).await;
    acknowledge(&store, "a", both).await;
    observe(&store, "b", "", "lds: cannot bind").await;
    let waiting = || -> Vec<_> {
        rollout_status(store.snapshot().world(), MESH, &moment())
            .unwrap()
            .waiting
            .iter()
            .map(ToString::to_string)
            .collect()
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

/// Proxy that acknowledged this step, and lost its connection now.
async fn blink(store: &Store, proxy: &str, step: &str) {
    let connections =
        json!([{ "id": "1", "connectTime": "2026-01-01T00:00:00Z", "disconnectTime": Timestamp::now().to_string() }]);
    let spec = json!({ "subscriptions": connections, "mTLS": { "acknowledged": step } });
    put(store, ResourceKey::in_mesh("DataplaneInsight", MESH, proxy), &spec).await;
}

const BOTH: &str = "accept=both call=plain signer=ca-1 trust=ca-1";
const CALL: &str = "accept=both call=mtls signer=ca-1 trust=ca-1";
const STRICT: &str = "accept=mtls call=mtls signer=ca-1 trust=ca-1";

fn current(store: &Store) -> RolloutRecord {
    let snapshot = store.snapshot();
    snapshot.world().get(&document::key(MESH, ROLLOUT)).unwrap().document().unwrap()
}

#[tokio::test]
async fn proxy_that_lost_its_connection_is_overtaken_only_after_its_grace_period() {
    let store = store().await;
    let drain = CancellationToken::new();
    put_mesh(&store, "").await;
    let grace = SignedDuration::from_millis(400);
    let limits = AbsenceLimits { connection_grace: grace, ..AbsenceLimits::default() };
    let task = tokio::spawn(run_mtls(store.clone(), Quarantine::default(), limits, drain.clone()));
    step(&store, "").await;
    acknowledge(&store, "a", "").await;
    acknowledge(&store, "blink", "").await;
    put_mesh(&store, "ca-1").await;
    step(&store, BOTH).await;
    acknowledge(&store, "a", BOTH).await;
    let left = Timestamp::now();
    blink(&store, "blink", "").await;
    step(&store, CALL).await;
    let taken = current(&store).taken.unwrap();
    assert!(taken.duration_since(left) >= grace, "{taken} is less than the grace period after {left}");
    // All at once: nobody can acknowledge, so each step lasts.
    blink(&store, "a", BOTH).await;
    step(&store, STRICT).await;
    let last = current(&store).taken.unwrap();
    assert!(last.duration_since(taken) >= grace, "{last} is less than the grace period after {taken}");
    drain.cancel();
    task.await.unwrap().unwrap();
}

/// A junk certificate that an older version stored, and a store in which the step before is known.
#[tokio::test]
async fn rejected_step_is_left_when_its_cause_is_removed() {
    let store = store().await;
    let drain = CancellationToken::new();
    put_mesh(&store, "ca-1").await;
    let limits = AbsenceLimits::default();
    let task = tokio::spawn(run_mtls(store.clone(), Quarantine::default(), limits, drain.clone()));
    step(&store, STRICT).await;
    acknowledge(&store, "a", STRICT).await;
    let junk = json!({ "trustDomains": { "junk": ["no certificate"] } });
    put(&store, document::key(MESH, IDENTITIES), &junk).await;
    let rejected = eventually::<Rollout>(&store, ROLLOUT, |rollout| rollout.trust_domains.len() == 1).await;
    observe(&store, "a", STRICT, "sds: Failed to load trusted CA certificates").await;
    put(&store, document::key(MESH, IDENTITIES), &json!({})).await;
    let back = eventually::<Rollout>(&store, ROLLOUT, |rollout| rollout.trust_domains.is_empty()).await;
    assert_ne!(back.token(), rejected.token());
    assert_ne!(back.token(), STRICT, "the acknowledgement of before does not count");
    acknowledge(&store, "a", &back.token()).await;
    // The next change goes on as always.
    put_mesh(&store, "").await;
    step(&store, CALL).await;
    drain.cancel();
    task.await.unwrap().unwrap();
}

#[tokio::test]
async fn unreadable_record_changes_nothing_and_is_reported() {
    let store = store().await;
    let drain = CancellationToken::new();
    put_mesh(&store, "ca-1").await;
    let limits = AbsenceLimits::default();
    let task = tokio::spawn(run_mtls(store.clone(), Quarantine::default(), limits, drain.clone()));
    step(&store, STRICT).await;
    let key = document::key(MESH, IDENTITIES);
    put(&store, key.clone(), &json!({ "identities": "of another version" })).await;
    let status = rollout_status(store.snapshot().world(), MESH, &moment()).unwrap();
    assert_eq!(status.unreadable, [IDENTITIES]);
    put_mesh(&store, "").await;
    // No event shows that nothing happens, so this waits for a fault.
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(current(&store).step.token(), STRICT);
    put(&store, key, &json!({})).await;
    step(&store, "").await;
    drain.cancel();
    task.await.unwrap().unwrap();
}
