//! MeshLoadBalancingStrategy: failover to other zones.

use hyper::StatusCode;
use serde_json::{Value, json};

use super::{tally, to_backend, until_only, until_status};
use crate::harness::{Dataplane, MESH, Mesh, Mtls, Service, eventually, expect, workload_address};

#[tokio::test(flavor = "multi_thread")]
async fn fails_over_to_another_zone_without_local_endpoints() {
    let Some(mesh) = Mesh::start(Mtls::Off).await else { return };
    // A control plane has proxies of one zone only, so who serves the far one has another name for it here.
    let workload = Service::start("far", workload_address()).await;
    let far = Dataplane::serving_as("elsewhere", "elsewhere", &workload);
    let mesh = mesh.move_to("west").await;
    mesh.control_plane.put(&format!("/meshes/{MESH}/dataplanes/far"), &as_backend(&far)).await;
    let mesh = mesh.move_to("east").await;
    let (_far, (_near, near)) = tokio::join!(mesh.sidecar(far), mesh.backend("near"));
    let client = mesh.sidecar(Dataplane::calling("client")).await;
    eventually("both are called, as nobody has said otherwise", async || {
        let tally = tally(&client, 20).await;
        expect(tally.len() == 2, tally)
    })
    .await;

    mesh.put("MeshLoadBalancingStrategy", "zones", &failover(&json!({ "type": "Only", "zones": ["west"] }))).await;
    until_only(&client, "near", 50).await;
    near.terminate();
    near.ended().await;
    until_only(&client, "far", 20).await;
    mesh.put("MeshLoadBalancingStrategy", "zones", &failover(&json!({ "type": "None" }))).await;
    until_status(&client, StatusCode::SERVICE_UNAVAILABLE).await;
    mesh.put("MeshLoadBalancingStrategy", "zones", &to_backend(&json!({}))).await;
    until_status(&client, StatusCode::OK).await;
    until_only(&client, "far", 20).await;
}

fn failover(to: &Value) -> Value {
    to_backend(&json!({ "localityAwareness": { "crossZone": { "failover": [{ "to": to }] } } }))
}

/// The same inbounds, as `backend`.
fn as_backend(dataplane: &Dataplane) -> Value {
    let mut document = dataplane.document();
    document["name"] = "far".into();
    for inbound in document["networking"]["inbound"].as_array_mut().unwrap() {
        let service = inbound["tags"]["kuma.io/service"].as_str().unwrap().replace("elsewhere", "backend");
        inbound["tags"]["kuma.io/service"] = service.into();
    }
    document
}
