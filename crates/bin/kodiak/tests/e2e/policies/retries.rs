//! MeshRetry: failed requests are retried a limited number of times.

use hyper::StatusCode;
use serde_json::{Value, json};

use super::to_backend;
use crate::harness::{Manner, Mesh, Mtls, Service, Sidecar, eventually, expect};

#[tokio::test(flavor = "multi_thread")]
async fn retries_failed_requests() {
    let Some(mesh) = Mesh::start(Mtls::Off).await else { return };
    let (service, _backend) = mesh.backend("backend-1").await;
    let client = mesh.client().await;
    let (well, badly) = (StatusCode::OK, StatusCode::SERVICE_UNAVAILABLE);
    until_tried(&client, &service, 3, (badly, 1)).await;
    for (retries, on, outcome) in [
        (3, json!(["5xx"]), (well, 4)),
        (2, json!(["5xx"]), (badly, 3)),
        // Every new mesh has this one.
        (5, json!([]), (well, 4)),
        (5, json!(["501", "ConnectFailure"]), (badly, 1)),
        (5, json!(["503"]), (well, 4)),
        (0, json!(["5xx"]), (badly, 1)),
    ] {
        mesh.put("MeshRetry", "retries", &to_backend(&retry(retries, &on))).await;
        until_tried(&client, &service, 3, outcome).await;
    }
    mesh.put("MeshRetry", "retries", &to_backend(&retry(3, &json!(["5xx", "HttpMethodPost"])))).await;
    until_tried(&client, &service, 3, (badly, 1)).await;
    mesh.put("MeshRetry", "retries", &to_backend(&retry(3, &json!(["5xx", "HttpMethodGet"])))).await;
    until_tried(&client, &service, 3, (well, 4)).await;
    mesh.delete("MeshRetry", "retries").await;
    until_tried(&client, &service, 3, (badly, 1)).await;
}

fn retry(retries: u32, on: &Value) -> Value {
    let pause = json!({ "baseInterval": "1ms", "maxInterval": "2ms" });
    json!({ "http": { "numRetries": retries, "retryOn": on, "backOff": pause } })
}

/// Until a call that the workload fails so often at first has this outcome: what the caller got, and how often it was
/// tried.
pub(super) async fn until_tried(client: &Sidecar, service: &Service, fails: u64, outcome: (StatusCode, u64)) {
    eventually(&format!("of {fails} failures, {outcome:?} comes"), async || {
        service.answers(Manner::Failing(fails));
        let before = service.counted();
        let answer = client.call().await?;
        let found = (answer.status, service.counted() - before);
        expect(found == outcome, found)
    })
    .await;
    service.answers(Manner::AtOnce);
}
