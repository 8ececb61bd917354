//! MeshTrafficPermission changes.

use hyper::StatusCode;
use serde_json::json;

use crate::harness::{Dataplane, Mesh, Mtls, Sidecar, eventually, expect};

#[tokio::test(flavor = "multi_thread")]
async fn permission_takes_effect_when_created_and_deleted() {
    let Some(mesh) = Mesh::start(Mtls::Strict(vec![Mtls::builtin("ca-1")])).await else { return };
    let (_service, _backend) = mesh.backend("backend-1").await;
    let client = mesh.sidecar(Dataplane::calling("client")).await;
    until_answered_with(&client, StatusCode::FORBIDDEN).await;
    let of = |service: &str| {
        json!([{ "targetRef": { "kind": "MeshSubset", "tags": { "kuma.io/service": service } },
                 "default": { "action": "Allow" } }])
    };
    mesh.permit(&of("client")).await;
    until_answered_with(&client, StatusCode::OK).await;
    mesh.permit(&of("somebody-else")).await;
    until_answered_with(&client, StatusCode::FORBIDDEN).await;
    mesh.permit_all().await;
    until_answered_with(&client, StatusCode::OK).await;
    mesh.forbid().await;
    until_answered_with(&client, StatusCode::FORBIDDEN).await;
}

async fn until_answered_with(client: &Sidecar, status: StatusCode) {
    eventually(&format!("a call is answered with {status}"), async || {
        let answer = client.call().await?;
        expect(answer.status == status, answer)
    })
    .await;
}
