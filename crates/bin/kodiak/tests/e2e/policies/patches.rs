//! MeshProxyPatch: a patched proxy serves requests, and an invalid operation leaves all others in force.

use hyper::StatusCode;
use serde_json::{Value, json};

use super::until_status;
use crate::harness::{MESH, Mesh, Mtls, Sidecar, eventually, expect};

#[tokio::test(flavor = "multi_thread")]
async fn invalid_operations_leave_everything_else_in_force() {
    let Some(mesh) = Mesh::start(Mtls::Off).await else { return };
    let (_service, _backend) = mesh.backend("backend-1").await;
    let client = mesh.client().await;
    until_status(&client, StatusCode::OK).await;

    mesh.put("MeshProxyPatch", "header", &patch(&json!([lua("handle:headers():add('x-patched', 'once')")]))).await;
    until_patched(&client, "once").await;
    until_reason(&mesh, &Value::Null).await;

    // Our validation finds this one.
    let removed = json!({ "cluster": { "operation": "Remove", "match": { "origin": "inbound" } } });
    mesh.put("MeshProxyPatch", "header", &patch(&json!([lua("handle:headers():add('x-patched', 'beside')"), removed])))
        .await;
    let reason = until_reason(&mesh, &json!("FailedValidation")).await;
    assert!(reason.contains("spec.default.appendModifications[1].cluster: inbound:"), "{reason}");
    assert!(reason.contains("which does not exist"), "{reason}");
    until_patched(&client, "beside").await;

    // Only Envoy finds this one.
    mesh.put("MeshProxyPatch", "header", &patch(&json!([lua("this is not Lua")]))).await;
    let reason = until_reason(&mesh, &json!("Rejected")).await;
    assert!(reason.contains("script load error"), "{reason}");
    assert_patched(&client, "beside").await;

    mesh.put("MeshProxyPatch", "header", &patch(&json!([lua("handle:headers():add('x-patched', 'twice')")]))).await;
    until_patched(&client, "twice").await;
    until_reason(&mesh, &Value::Null).await;

    mesh.delete("MeshProxyPatch", "header").await;
    until_patched(&client, "").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn virtual_host_of_an_outbound_adds_a_header() {
    let Some(mesh) = Mesh::start(Mtls::Off).await else { return };
    let (_service, _backend) = mesh.backend("backend-1").await;
    let client = mesh.client().await;
    until_status(&client, StatusCode::OK).await;
    let value = "responseHeadersToAdd: [{header: {key: x-patched, value: outbound}}]";
    let host = json!({ "virtualHost": { "operation": "Patch", "match": { "origin": "outbound" }, "value": value } });
    mesh.put("MeshProxyPatch", "header", &json!({ "default": { "appendModifications": [host] } })).await;
    until_patched(&client, "outbound").await;
}

/// For the backend.
fn patch(modifications: &Value) -> Value {
    json!({
        "targetRef": { "kind": "Dataplane", "name": "backend-1" },
        "default": { "appendModifications": modifications },
    })
}

/// A filter that runs this on responses.
fn lua(code: &str) -> Value {
    let filter = json!({
        "name": "envoy.filters.http.lua",
        "typedConfig": {
            "@type": "type.googleapis.com/envoy.extensions.filters.http.lua.v3.Lua",
            "defaultSourceCode": { "inlineString": format!("function envoy_on_response(handle) {code} end") },
        },
    });
    let router = json!({ "name": "envoy.filters.http.router", "origin": "inbound" });
    json!({ "httpFilter": { "operation": "AddBefore", "match": router, "value": filter.to_string() } })
}

async fn until_patched(client: &Sidecar, value: &str) {
    eventually(&format!("responses have the header {value:?}"), async || {
        let answer = client.call().await?;
        expect(answer.status == StatusCode::OK && answer.header("x-patched") == value, answer)
    })
    .await;
}

async fn assert_patched(client: &Sidecar, value: &str) {
    let answer = client.call().await.unwrap().fine();
    assert_eq!(answer.header("x-patched"), value);
}

/// Until the status of the policy has this reason. Returns its message.
async fn until_reason(mesh: &Mesh, reason: &Value) -> String {
    let path = format!("/meshes/{MESH}/meshproxypatches/header/_status");
    let mut message = String::new();
    eventually(&format!("the status of the policy has the reason {reason}"), async || {
        let status = mesh.control_plane.get(&path).await.fine().json();
        let first = &status["reasons"][0];
        first["message"].as_str().unwrap_or_default().clone_into(&mut message);
        expect(first["reason"] == *reason, status)
    })
    .await;
    message
}
