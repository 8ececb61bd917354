//! MeshFaultInjection: the share of requests with a fault, and the callers that get it.

use hyper::StatusCode;
use serde_json::{Value, json};

use super::until_status;
use crate::harness::{Dataplane, Mesh, Mtls, Sidecar, eventually, expect};

/// Nothing but a fault responds with it.
const ABORTED: StatusCode = StatusCode::IM_A_TEAPOT;
const CALLS: u64 = 20;

#[tokio::test(flavor = "multi_thread")]
async fn aborted_share_of_requests_is_the_percentage() {
    const SAMPLE: u64 = 400;
    // Binomial with n = 400 and p = 0.5: mean 200, standard deviation 10. Beyond six deviations once in 500 million runs.
    const EXPECTED: std::ops::RangeInclusive<u64> = 140..=260;
    let Some(mesh) = Mesh::start(Mtls::Off).await else { return };
    let (service, backend) = mesh.backend("backend-1").await;
    let client = mesh.client().await;
    mesh.put("MeshFaultInjection", "faults", &everybody(&abort(50))).await;
    until_status(&client, ABORTED).await;

    let before = (service.counted(), backend.sum_of("fault.aborts_injected").await);
    let found = aborted(&client, SAMPLE).await;
    assert!(EXPECTED.contains(&found), "{found} of {SAMPLE} requests");
    let after = (service.counted(), backend.sum_of("fault.aborts_injected").await);
    assert_eq!(after, (before.0 + SAMPLE - found, before.1 + found), "each request is aborted or arrives");

    // An empty list of a more specific policy removes the fault.
    mesh.put("MeshFaultInjection", "faults", &everybody(&abort(100))).await;
    until_aborted_of(&client, CALLS).await;
    let target = json!({ "kind": "Dataplane", "name": "backend-1" });
    let none = json!({ "targetRef": target, "rules": [{ "default": { "http": [] } }] });
    mesh.put("MeshFaultInjection", "none", &none).await;
    until_aborted_of(&client, 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn delays_and_bandwidth_limits_are_counted() {
    let Some(mesh) = Mesh::start(Mtls::Off).await else { return };
    let (_service, backend) = mesh.backend("backend-1").await;
    let client = mesh.client().await;
    let slow = json!([
        { "delay": { "value": "1ms", "percentage": 100 } },
        { "responseBandwidth": { "limit": "1 Gbps", "percentage": 100 } },
    ]);
    mesh.put("MeshFaultInjection", "faults", &everybody(&slow)).await;
    until_slow(&client, &backend, CALLS).await;
    mesh.delete("MeshFaultInjection", "faults").await;
    until_slow(&client, &backend, 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn only_matched_callers_get_the_fault() {
    let Some(mesh) = Mesh::start(Mtls::Strict(vec![Mtls::builtin("ca")])).await else { return };
    mesh.permit_all().await;
    let (_service, _backend) = mesh.backend("backend-1").await;
    let client = mesh.client().await;
    let other = mesh.client_as(Dataplane::calling("other").tagged("team", "reports")).await;

    let always = abort(100);
    let rule = |kind: &str, value: &str| {
        let matches = json!([{ "spiffeID": { "type": kind, "value": value } }]);
        json!({ "targetRef": { "kind": "Mesh" }, "rules": [{ "matches": matches, "default": { "http": always } }] })
    };
    mesh.put("MeshFaultInjection", "rules", &rule("Exact", "spiffe://shop/client")).await;
    until_aborted(&client, &other).await;
    mesh.put("MeshFaultInjection", "rules", &rule("Prefix", "spiffe://shop/other")).await;
    until_aborted(&other, &client).await;

    // By tags, which only have an effect where no policy has `rules`.
    let item = |target: Value| json!({ "targetRef": target, "default": { "http": always } });
    let from = |item: Value| json!({ "targetRef": { "kind": "Mesh", "proxyTypes": ["Sidecar"] }, "from": [item] });
    let reports = item(json!({ "kind": "MeshSubset", "tags": { "team": "reports" } }));
    mesh.put("MeshFaultInjection", "from", &from(item(json!({ "kind": "MeshService", "name": "client" })))).await;
    until_aborted(&other, &client).await;
    mesh.delete("MeshFaultInjection", "rules").await;
    until_aborted(&client, &other).await;
    mesh.put("MeshFaultInjection", "from", &from(reports)).await;
    until_aborted(&other, &client).await;
}

fn everybody(faults: &Value) -> Value {
    json!({ "targetRef": { "kind": "Mesh" }, "rules": [{ "default": { "http": faults } }] })
}

fn abort(percentage: u32) -> Value {
    json!([{ "abort": { "httpStatus": ABORTED.as_u16(), "percentage": percentage } }])
}

async fn until_aborted_of(client: &Sidecar, expected: u64) {
    eventually(&format!("{expected} of {CALLS} requests are aborted"), async || {
        let found = aborted(client, CALLS).await;
        expect(found == expected, found)
    })
    .await;
}

/// Until so many requests of all are delayed, and so many responses limited.
async fn until_slow(client: &Sidecar, backend: &Sidecar, expected: u64) {
    eventually(&format!("{expected} of {CALLS} requests are delayed and limited"), async || {
        let before = slowed(backend).await;
        assert_eq!(aborted(client, CALLS).await, 0);
        let after = slowed(backend).await;
        expect([after[0] - before[0], after[1] - before[1]] == [expected; 2], (before, after))
    })
    .await;
}

/// Delays and limits so far; none before the first fault is configured.
async fn slowed(backend: &Sidecar) -> [u64; 2] {
    let counter = async |name: &str| {
        let lines = backend.stats(name).await;
        lines.iter().map(|line| line.rsplit_once(": ").unwrap().1.parse::<u64>().unwrap()).sum()
    };
    [counter("fault.delays_injected").await, counter("fault.response_rl_injected").await]
}

/// Until all requests of one caller are aborted, and none of the other.
async fn until_aborted(hit: &Sidecar, spared: &Sidecar) {
    let (one, other) = (&hit.dataplane.name, &spared.dataplane.name);
    eventually(&format!("requests of {one} are aborted, and none of {other}"), async || {
        let found = (aborted(hit, CALLS).await, aborted(spared, CALLS).await);
        expect(found == (CALLS, 0), found)
    })
    .await;
}

/// Number of requests of so many that were aborted. The backend answers all others.
async fn aborted(client: &Sidecar, calls: u64) -> u64 {
    let mut aborted = 0;
    for _ in 0..calls {
        let answer = client.call().await.unwrap();
        assert!([StatusCode::OK, ABORTED].contains(&answer.status), "{answer:?}");
        aborted += u64::from(answer.status == ABORTED);
    }
    aborted
}
