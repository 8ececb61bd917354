//! Effects of policies on requests between two proxies.

mod access_logs;
mod balancing;
mod breakers;
mod changes;
mod connections;
mod defaults;
mod faults;
mod health_checks;
mod metrics;
mod outliers;
mod passthrough;
mod patches;
mod rate_limits;
mod requests;
mod retries;
mod shadow;
mod splits;
mod timeouts;
mod tls;
mod traces;
mod zones;

use std::collections::BTreeMap;

use hyper::StatusCode;
use serde_json::{Value, json};

use crate::harness::{Sidecar, eventually, expect};

/// Spec of a policy for calls to `backend`.
fn to_backend(conf: &Value) -> Value {
    json!({ "to": [{ "targetRef": { "kind": "MeshService", "name": "backend" }, "default": conf }] })
}

/// Where these rules send requests for `backend`.
fn routes(rules: &Value) -> Value {
    json!({ "to": [{ "targetRef": { "kind": "MeshService", "name": "backend" }, "rules": rules }] })
}

/// Calls `backend` so often, one call after the other, and tells how often who answered. All must be answered.
async fn tally(client: &Sidecar, calls: u32) -> BTreeMap<String, u32> {
    let mut tally = BTreeMap::new();
    for _ in 0..calls {
        let answer = client.call().await.unwrap().fine();
        *tally.entry(answer.text).or_default() += 1;
    }
    tally
}

/// Until so many calls in a row are answered by this workload alone.
async fn until_only(client: &Sidecar, name: &str, calls: u32) {
    eventually(&format!("{name} alone answers"), async || {
        let tally = tally(client, calls).await;
        expect(tally.keys().eq([name]), tally)
    })
    .await;
}

async fn until_status(client: &Sidecar, status: StatusCode) {
    eventually(&format!("a call is answered with {status}"), async || {
        let answer = client.call().await?;
        expect(answer.status == status, answer)
    })
    .await;
}
