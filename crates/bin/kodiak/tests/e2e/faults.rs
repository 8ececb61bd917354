//! Proxies with a faulty MeshProxyPatch: whatever has no part in the fault goes on.

use hyper::StatusCode;
use serde_json::{Value, json};

use crate::harness::{Dataplane, MESH, Mesh, Mtls, Setup, Sidecar, eventually, expect};

const PROXIES: [&str; 2] = ["client", "backend-1"];

#[tokio::test(flavor = "multi_thread")]
async fn certificates_endpoints_and_permissions_go_on_with_a_faulty_patch() {
    let rotation = json!({ "rotation": { "expiration": "10s" } });
    let backend = json!({ "name": "ca-1", "type": "builtin", "dpCert": rotation });
    let setup = Setup { settings: &["xdsServer.dataplaneStatusFlushIntervalSeconds=1"], ..Setup::default() };
    let Some(mesh) = Mesh::start_with(Mtls::Strict(vec![backend]), setup).await else { return };
    mesh.permit_all().await;
    let (_first, _backend) = mesh.backend("backend-1").await;
    let client = mesh.client().await;

    // The cluster of every inbound is removed, and outbounds send to a cluster that does not exist.
    let removed = json!({ "cluster": { "operation": "Remove", "match": { "origin": "inbound" } } });
    let host = "name: lost\ndomains: ['lost']\nroutes: [{ match: { prefix: / }, route: { cluster: nowhere } }]";
    let added = json!({ "virtualHost": { "operation": "Add", "match": { "origin": "outbound" }, "value": host } });
    mesh.put("MeshProxyPatch", "broken", &json!({ "default": { "appendModifications": [removed, added] } })).await;
    until_faulty(&mesh).await;
    until_renewed(&mesh).await;

    // A new endpoint.
    let (second, _other) = mesh.backend("backend-2").await;
    until_called(&client, &second).await;

    // After a restart there is no earlier configuration of any proxy.
    let mesh = mesh.crash(async || ()).await;
    until_faulty(&mesh).await;
    // Twice: Dataplanes that proxies registered would have been deleted meanwhile.
    for _ in 0..2 {
        until_renewed(&mesh).await;
    }
    let (third, _another) = mesh.backend("backend-3").await;
    until_called(&client, &third).await;
    for proxy in PROXIES {
        assert_eq!(mesh.dataplane(proxy).await.status, StatusCode::OK, "{proxy}");
    }

    // Servers with the fault get the change of a permission.
    mesh.forbid().await;
    until_answered_with(&client, StatusCode::FORBIDDEN).await;
    mesh.permit_all().await;
    until_answered_with(&client, StatusCode::OK).await;
    mesh.delete("MeshProxyPatch", "broken").await;
    eventually("no proxy has a fault", async || {
        let faults = faults(&mesh, "backend-1").await;
        expect(faults.is_empty(), faults)
    })
    .await;
    until_answered_with(&client, StatusCode::OK).await;
    let late = Dataplane::calling("client-2");
    let late = mesh.client_as(late).await;
    until_answered_with(&late, StatusCode::OK).await;
}

async fn faults(mesh: &Mesh, proxy: &str) -> Vec<Value> {
    let status = mesh.control_plane.get(&format!("/meshes/{MESH}/dataplanes/{proxy}/_status")).await.json();
    status["faults"].as_array().cloned().unwrap_or_default()
}

async fn until_faulty(mesh: &Mesh) {
    for proxy in PROXIES {
        eventually(&format!("{proxy} has a fault"), async || {
            let faults = faults(mesh, proxy).await;
            let names_it =
                |fault: &Value| fault.as_str().is_some_and(|fault| fault.contains("MeshProxyPatch \"broken\""));
            expect(faults.iter().any(names_it), faults)
        })
        .await;
    }
}

/// Until all have another certificate than now.
async fn until_renewed(mesh: &Mesh) {
    for proxy in PROXIES {
        let serial = async || mesh.insight(proxy).await["mTLS"]["certificateExpirationTime"].clone();
        let before = serial().await;
        eventually(&format!("the certificate of {proxy} is renewed"), async || {
            let now = serial().await;
            expect(now.is_string() && now != before, now)
        })
        .await;
    }
}

async fn until_called(client: &Sidecar, service: &crate::harness::Service) {
    eventually("the new endpoint is called", async || {
        client.call().await?;
        expect(service.counted() > 0, "no request")
    })
    .await;
}

async fn until_answered_with(client: &Sidecar, status: StatusCode) {
    eventually(&format!("a call is answered with {status}"), async || {
        let answer = client.call().await?;
        expect(answer.status == status, answer)
    })
    .await;
}
