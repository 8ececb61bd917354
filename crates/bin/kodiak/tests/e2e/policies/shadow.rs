//! Shadow policies.

use hyper::StatusCode;
use serde_json::json;

use super::{
    timeouts::{LATE, request},
    to_backend,
};
use crate::harness::{MESH, Mesh, Mtls, eventually, expect};

#[tokio::test(flavor = "multi_thread")]
async fn shadow_policy_shows_its_changes_without_effect() {
    let Some(mesh) = Mesh::start(Mtls::Off).await else { return };
    let (service, _backend) = mesh.backend("backend-1").await;
    let client = mesh.client().await;
    service.answers(LATE);
    mesh.put_shadow("MeshTimeout", "tried", &to_backend(&request("100ms"))).await;

    let config = format!("/meshes/{MESH}/dataplanes/client/_config");
    // The insight of a proxy that just connected is written within a moment.
    let diff = eventually("the configuration of the client is shown", async || {
        let shown = mesh.control_plane.get(&format!("{config}?shadow=true&include=diff")).await.json();
        shown["diff"].as_array().cloned().ok_or_else(|| format!("{shown:#}"))
    })
    .await;
    let timeouts = diff.iter().filter(|step| step["path"].as_str().unwrap().ends_with("/timeout"));
    let timeouts: Vec<_> = timeouts.map(|step| (step["op"].as_str().unwrap(), step["value"].as_str())).collect();
    assert_eq!(timeouts, [("test", Some("0s")), ("remove", Some("0s")), ("add", Some("0.100s"))], "{diff:#?}");
    let without = mesh.control_plane.get(&format!("{config}?shadow=false&include=diff")).await.json();
    assert_eq!(without["diff"], json!([]));

    // A later policy is in force, so the shadow policy is not merely late.
    mesh.put("MeshRetry", "later", &to_backend(&json!({ "http": { "numRetries": 1 } }))).await;
    eventually("what came later is in force", async || {
        let dump = client.admin("/config_dump").await?.text;
        expect(dump.contains("num_retries"), ())
    })
    .await;
    assert_eq!(client.call().await.unwrap().status, StatusCode::OK);

    mesh.put("MeshTimeout", "tried", &to_backend(&request("100ms"))).await;
    super::until_status(&client, StatusCode::GATEWAY_TIMEOUT).await;
}
