//! MeshRateLimit: requests above the rate get the status and headers of the policy.

use hyper::StatusCode;
use serde_json::{Value, json};

use super::until_status;
use crate::harness::{Mesh, Mtls, Sidecar, eventually, expect, get};

const NUM: usize = 5;
/// More than any limit here.
const CALLS: usize = 20;

#[tokio::test(flavor = "multi_thread")]
async fn requests_above_the_rate_are_rejected() {
    let Some(mesh) = Mesh::start(Mtls::Off).await else { return };
    let (_service, backend) = mesh.backend("backend-1").await;
    let client = mesh.client().await;
    until_status(&client, StatusCode::OK).await;

    mesh.put("MeshRateLimit", "limits", &everybody(&limit(NUM))).await;
    until_accepted(&client, 0).await;
    // An interval is longer than the test: only a new configuration fills the bucket, once.
    mesh.put("MeshRateLimit", "limits", &everybody(&limit(NUM + 1))).await;
    let mut total = 0;
    eventually("a full bucket admits its number of requests", async || {
        total += accepted(&client, 1).await;
        expect(total == NUM + 1, total)
    })
    .await;
    assert_eq!(accepted(&client, CALLS).await, 0);
    let limited = client.call().await.unwrap();
    assert_eq!((limited.status, limited.header("x-limited")), (StatusCode::LOCKED, "yes"));
    assert!(backend.sum_of("rate_limit.http_local_rate_limit.enforced").await > 0);

    mesh.delete("MeshRateLimit", "limits").await;
    until_accepted(&client, CALLS).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn caller_with_a_rule_of_its_own_is_not_limited() {
    let Some(mesh) = Mesh::start(Mtls::Strict(vec![Mtls::builtin("ca")])).await else { return };
    let everyone = json!({ "from": [{ "targetRef": { "kind": "Mesh" }, "default": { "action": "Allow" } }] });
    mesh.put("MeshTrafficPermission", "all", &everyone).await;
    let (_service, _backend) = mesh.backend("backend-1").await;
    let client = mesh.client().await;
    until_status(&client, StatusCode::OK).await;

    mesh.put("MeshRateLimit", "limits", &everybody(&limit(1))).await;
    until_accepted(&client, 0).await;

    let mut spec = everybody(&limit(1));
    let own = json!({
        "matches": [{ "spiffeID": { "type": "Prefix", "value": "spiffe://shop" } }],
        "default": { "local": { "http": { "disabled": true } } },
    });
    spec["rules"].as_array_mut().unwrap().push(own);
    mesh.put("MeshRateLimit", "limits", &spec).await;
    until_accepted(&client, CALLS).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_above_the_rate_are_closed() {
    let Some(mesh) = Mesh::start(Mtls::Off).await else { return };
    let (_service, backend) = mesh.backend("backend-1").await;
    let client = mesh.client().await;
    eventually("TCP connections are answered", async || get(client.outbound_tcp(), "/").await).await;

    let limit = |num: usize| {
        let rate = json!({ "connectionRate": { "num": num, "interval": "1h" } });
        everybody(&json!({ "local": { "tcp": rate } }))
    };
    mesh.put("MeshRateLimit", "limits", &limit(1)).await;
    eventually("no connection is left", async || {
        let answered = connections(&client, 2).await;
        expect(answered == 0, answered)
    })
    .await;
    // An interval is longer than the test: only a new configuration fills the bucket, once.
    mesh.put("MeshRateLimit", "limits", &limit(NUM)).await;
    let mut total = 0;
    eventually("a full bucket admits its number of connections", async || {
        total += connections(&client, 1).await;
        expect(total == NUM, total)
    })
    .await;
    assert_eq!(connections(&client, CALLS).await, 0);
    assert!(backend.sum_of("local_rate_limit.tcp_rate_limit.rate_limited").await > 0);
    mesh.delete("MeshRateLimit", "limits").await;
    eventually("all connections are answered", async || {
        let answered = connections(&client, CALLS).await;
        expect(answered == CALLS, answered)
    })
    .await;
}

/// Number of new connections of so many that the backend answered.
async fn connections(client: &Sidecar, count: usize) -> usize {
    let mut answered = 0;
    for _ in 0..count {
        answered +=
            usize::from(get(client.outbound_tcp(), "/").await.is_ok_and(|answer| answer.status == StatusCode::OK));
    }
    answered
}

fn limit(num: usize) -> Value {
    json!({ "local": { "http": {
        "requestRate": { "num": num, "interval": "1h" },
        "onRateLimit": { "status": 423, "headers": { "set": [{ "name": "x-limited", "value": "yes" }] } },
    } } })
}

fn everybody(conf: &Value) -> Value {
    json!({ "targetRef": { "kind": "Mesh", "proxyTypes": ["Sidecar"] }, "rules": [{ "default": conf }] })
}

async fn until_accepted(client: &Sidecar, expected: usize) {
    eventually(&format!("{expected} of {CALLS} requests are accepted"), async || {
        let accepted = accepted(client, CALLS).await;
        expect(accepted == expected, accepted)
    })
    .await;
}

/// Number of requests of so many that the backend answered.
async fn accepted(client: &Sidecar, calls: usize) -> usize {
    let mut accepted = 0;
    for _ in 0..calls {
        let answer = client.call().await.unwrap();
        assert!([StatusCode::OK, StatusCode::LOCKED].contains(&answer.status), "{answer:?}");
        accepted += usize::from(answer.status == StatusCode::OK);
    }
    accepted
}
