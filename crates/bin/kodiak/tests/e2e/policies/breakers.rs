//! MeshCircuitBreaker: requests above a limit are rejected, on the outbound and on the inbound.

use hyper::StatusCode;
use serde_json::{Value, json};

use super::{to_backend, until_status};
use crate::harness::{Answer, Manner, Mesh, Mtls, Service, Sidecar, eventually, expect, get};

#[tokio::test(flavor = "multi_thread")]
async fn rejects_requests_above_a_limit() {
    let Some(mesh) = Mesh::start(Mtls::Off).await else { return };
    let (service, backend) = mesh.backend("backend-1").await;
    let client = mesh.client().await;

    mesh.put("MeshCircuitBreaker", "limits", &to_backend(&one_at_a_time())).await;
    until_refused(&client, &service, &client, "backend").await;

    mesh.put("MeshCircuitBreaker", "limits", &json!({ "rules": [{ "default": one_at_a_time() }] })).await;
    until_refused(&client, &service, &backend, "localhost_").await;

    mesh.delete("MeshCircuitBreaker", "limits").await;
    eventually("nothing is refused", async || {
        let second = second(&client, &service).await?;
        expect(second.status == StatusCode::OK, second)
    })
    .await;
}

fn one_at_a_time() -> Value {
    json!({ "connectionLimits": { "maxRequests": 1, "maxPendingRequests": 1 } })
}

/// Until a second request is refused while the first is under way, and the one who refuses it has counted that.
async fn until_refused(client: &Sidecar, service: &Service, refusing: &Sidecar, clusters: &str) {
    eventually("the second request is refused", async || {
        let before = overflows(refusing, clusters).await;
        let second = second(client, service).await?;
        let is_refused =
            second.status == StatusCode::SERVICE_UNAVAILABLE && second.header("x-envoy-overloaded") == "true";
        let counted = overflows(refusing, clusters).await - before;
        expect(is_refused && counted > 0, (second, counted))
    })
    .await;
    until_status(client, StatusCode::OK).await;
}

/// Calls while another call is under way, and gives the answer. The other must be answered well.
async fn second(client: &Sidecar, service: &Service) -> Result<Answer, String> {
    let before = service.counted();
    service.answers(Manner::Held);
    let first = tokio::spawn(get(client.outbound(), "/"));
    eventually("the first request is there", async || expect(service.counted() > before, ())).await;
    let second = tokio::spawn(get(client.outbound(), "/"));
    eventually("the second is answered or there", async || {
        expect(second.is_finished() || service.counted() > before + 1, service.counted())
    })
    .await;
    service.answers(Manner::AtOnce);
    first.await.unwrap().unwrap().fine();
    second.await.unwrap()
}

/// How many requests were above a limit of these clusters.
async fn overflows(sidecar: &Sidecar, clusters: &str) -> u64 {
    sidecar.sum_of(&format!("^cluster.{clusters}.*upstream_rq_(active|pending)_overflow$")).await
}
