//! MeshTimeout: slow requests time out, on the outbound and on the inbound.

use std::time::Duration;

use hyper::StatusCode;
use serde_json::{Value, json};

use super::{to_backend, until_status};
use crate::harness::{Manner, Mesh, Mtls, Sidecar, eventually, expect};

/// Longer than the short timeouts here, and far shorter than the long ones.
pub(super) const LATE: Manner = Manner::Late(Duration::from_millis(400));

#[tokio::test(flavor = "multi_thread")]
async fn slow_request_times_out() {
    let Some(mesh) = Mesh::start(Mtls::Strict(vec![Mtls::builtin("ca-1")])).await else { return };
    mesh.permit_all().await;
    let (service, backend) = mesh.backend("backend-1").await;
    let client = mesh.client().await;
    service.answers(LATE);
    until_status(&client, StatusCode::OK).await;

    for (timeout, status) in [("100ms", StatusCode::GATEWAY_TIMEOUT), ("20s", StatusCode::OK)] {
        mesh.put("MeshTimeout", "timeouts", &to_backend(&request(timeout))).await;
        until_status(&client, status).await;
    }
    assert_ne!(timeouts(&client, "backend").await, 0, "the caller has given up");
    assert_eq!(timeouts(&backend, "localhost_").await, 0, "the one who is called has not");

    let rules = |timeout| json!({ "rules": [{ "default": request(timeout) }] });
    mesh.put("MeshTimeout", "timeouts", &rules("100ms")).await;
    until_status(&client, StatusCode::GATEWAY_TIMEOUT).await;
    assert_ne!(timeouts(&backend, "localhost_").await, 0, "the one who is called has given up");
    mesh.put("MeshTimeout", "timeouts", &rules("20s")).await;
    until_status(&client, StatusCode::OK).await;

    // Callers have different timeouts.
    let of = |caller: &str, timeout: &str| {
        let id = json!({ "type": "Exact", "value": format!("spiffe://shop/{caller}") });
        json!({ "matches": [{ "spiffeID": id }], "default": request(timeout) })
    };
    mesh.put("MeshTimeout", "timeouts", &json!({ "rules": [of("client", "100ms")] })).await;
    until_status(&client, StatusCode::GATEWAY_TIMEOUT).await;
    mesh.put("MeshTimeout", "timeouts", &json!({ "rules": [of("somebody-else", "100ms")] })).await;
    until_status(&client, StatusCode::OK).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn timeout_applies_to_one_route() {
    let Some(mesh) = Mesh::start(Mtls::Off).await else { return };
    let (service, _backend) = mesh.backend("backend-1").await;
    let client = mesh.client().await;
    service.answers(LATE);
    let quick = json!([{ "path": { "type": "PathPrefix", "value": "/quick" } }]);
    mesh.put("MeshHTTPRoute", "quick", &super::routes(&json!([{ "matches": quick, "default": {} }]))).await;
    let to = json!([{ "targetRef": { "kind": "Mesh" }, "default": request("100ms") }]);
    let of_route = json!({ "targetRef": { "kind": "MeshHTTPRoute", "name": "quick" }, "to": to });
    mesh.put("MeshTimeout", "timeouts", &of_route).await;
    eventually("the route has its own time", async || {
        let answer = client.call_with("/quick/one", &[]).await?;
        expect(answer.status == StatusCode::GATEWAY_TIMEOUT, answer)
    })
    .await;
    assert_eq!(client.call_with("/other", &[]).await.unwrap().status, StatusCode::OK);
}

pub(super) fn request(timeout: &str) -> Value {
    json!({ "http": { "requestTimeout": timeout } })
}

/// How many requests to these clusters took too long.
async fn timeouts(sidecar: &Sidecar, clusters: &str) -> u64 {
    sidecar.sum_of(&format!("^cluster.{clusters}.*upstream_rq_timeout$")).await
}
