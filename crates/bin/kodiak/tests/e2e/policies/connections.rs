//! MeshTCPRoute: connections are routed to another service.

use serde_json::{Value, json};

use crate::harness::{Dataplane, Load, Mesh, Mtls, eventually, expect, get};

#[tokio::test(flavor = "multi_thread")]
async fn routes_connections_to_another_service_under_load() {
    let Some(mesh) = Mesh::start(Mtls::Strict(vec![Mtls::builtin("ca-1")])).await else { return };
    mesh.permit_all().await;
    let other = mesh.serving("other", |service| Dataplane::serving_as("other", "other", service));
    let (_backend, _other) = tokio::join!(mesh.backend("backend-1"), other);
    let client = mesh.client_as(Dataplane::calling("client").also_calling("other-tcp")).await;
    let load = Load::on(&client);
    let until_answered_by = async |address, name: &str| {
        eventually(&format!("{name} answers"), async || {
            let answer = get(address, "/").await?;
            expect(answer.text == name, answer)
        })
        .await;
    };

    mesh.put("MeshTCPRoute", "connections", &route("backend-tcp", "other-tcp")).await;
    until_answered_by(client.outbound_tcp(), "other").await;
    until_answered_by(client.outbound(), "backend-1").await;
    load.go_on(20).await;
    mesh.delete("MeshTCPRoute", "connections").await;
    until_answered_by(client.outbound_tcp(), "backend-1").await;
    load.go_on(20).await;
    load.end().await;

    // Connections with HTTP are connections too, as long as nobody routes their requests.
    mesh.put("MeshTCPRoute", "connections", &route("backend", "other")).await;
    until_answered_by(client.outbound(), "other").await;
    let every = json!([{ "path": { "type": "PathPrefix", "value": "/" } }]);
    mesh.put("MeshHTTPRoute", "requests", &super::routes(&json!([{ "matches": every, "default": {} }]))).await;
    until_answered_by(client.outbound(), "backend-1").await;
    mesh.delete("MeshHTTPRoute", "requests").await;
    until_answered_by(client.outbound(), "other").await;
    mesh.delete("MeshTCPRoute", "connections").await;
    until_answered_by(client.outbound(), "backend-1").await;
}

fn route(from: &str, to: &str) -> Value {
    let rules = json!([{ "default": { "backendRefs": [{ "kind": "MeshService", "name": to }] } }]);
    json!({ "to": [{ "targetRef": { "kind": "MeshService", "name": from }, "rules": rules }] })
}
