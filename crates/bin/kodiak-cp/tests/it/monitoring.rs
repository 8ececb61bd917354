//! Discovery of proxies for Prometheus.

use std::net::SocketAddr;

use hyper::{Method, StatusCode};
use serde_json::{Value, json};

use crate::harness::{Answer, TestControlPlane, send};

const TYPE_URL: &str = "type.googleapis.com/kuma.observability.v1.MonitoringAssignment";

#[tokio::test]
async fn proxies_with_metrics_are_assigned_to_their_prometheus() {
    let cp = TestControlPlane::start().await;
    dataplane(&cp, "web-1", "10.0.0.1").await;
    dataplane(&cp, "web-2", "10.0.0.2").await;
    assert_eq!(ask(&cp, &request("main", ""), "0s").await.json()["resources"], json!([]));
    metrics(&cp, &json!([
        { "type": "Prometheus", "prometheus": { "clientId": "main", "port": 5671, "tls": { "mode": "ProvidedTLS" } } },
        { "type": "Prometheus", "prometheus": { "path": "/stats" } },
    ]))
    .await;
    let answer = ask(&cp, &request("main", ""), "0s").await.json();
    assert_eq!((&answer["type_url"], &answer["version_info"]), (&json!(TYPE_URL), &answer["nonce"]));
    assert_eq!(
        answer["resources"][0],
        json!({
            "@type": TYPE_URL,
            "mesh": "default",
            "service": "web",
            "targets": [{
                "name": "web-1", "scheme": "https", "address": "10.0.0.1:5671", "metrics_path": "/metrics", "labels": {},
            }],
            "labels": {
                "kuma.io/service": "web", "kuma.io/services": ",web,", "kuma.io/zone": "default", "kuma.io/zones": ",default,",
            },
        })
    );
    assert_eq!(answer["resources"].as_array().unwrap().len(), 2);
    let other = ask(&cp, &request("another", ""), "0s").await.json();
    let target = &other["resources"][1]["targets"][0];
    assert_eq!((&target["address"], &target["metrics_path"]), (&json!("10.0.0.2:5670"), &json!("/stats")));
    assert_eq!(target["scheme"], "http");
}

#[tokio::test]
async fn request_waits_for_a_change() {
    let cp = TestControlPlane::start().await;
    metrics(&cp, &json!([{ "type": "Prometheus", "prometheus": {} }])).await;
    let version = ask(&cp, &request("main", ""), "0s").await.json()["version_info"].as_str().unwrap().to_owned();
    assert_eq!(ask(&cp, &request("main", &version), "1ms").await.status, StatusCode::NOT_MODIFIED);
    let same = request("main", &version);
    let (waiting, ()) = tokio::join!(ask(&cp, &same, "1m"), dataplane(&cp, "web-1", "10.0.0.1"));
    assert_eq!(waiting.json()["resources"][0]["targets"][0]["name"], "web-1");
}

#[tokio::test]
async fn invalid_requests_are_rejected() {
    let cp = TestControlPlane::start().await;
    let status = async |body: &str, timeout: &str| {
        let path = format!("/v3/discovery:monitoringassignments?fetch-timeout={timeout}");
        send(address(&cp), Method::POST, &path, &[], body.to_owned()).await.status
    };
    assert_eq!(status("{", "0s").await, StatusCode::BAD_REQUEST);
    assert_eq!(status("{}", "soon").await, StatusCode::BAD_REQUEST);
    assert_eq!(status(r#"{"type_url": "other"}"#, "0s").await, StatusCode::BAD_REQUEST);
    assert_eq!(status(&" ".repeat(100_000), "0s").await, StatusCode::PAYLOAD_TOO_LARGE);
    assert_eq!(status("{}", "0s").await, StatusCode::OK);
}

#[tokio::test]
async fn discovery_can_be_turned_off() {
    let cp = TestControlPlane::start_with(|config| config.monitoring_assignment_server.enabled = false).await;
    assert_eq!(cp.control_plane.monitoring, None);
}

fn request(client: &str, version: &str) -> Value {
    json!({ "version_info": version, "node": { "id": client }, "type_url": TYPE_URL, "response_nonce": version })
}

async fn ask(cp: &TestControlPlane, request: &Value, timeout: &str) -> Answer {
    let path = format!("/v3/discovery:monitoringassignments?fetch-timeout={timeout}");
    send(address(cp), Method::POST, &path, &[], request.to_string()).await
}

fn address(cp: &TestControlPlane) -> SocketAddr {
    let port = cp.control_plane.monitoring.unwrap().port();
    SocketAddr::from(([127, 0, 0, 1], port))
}

async fn dataplane(cp: &TestControlPlane, name: &str, address: &str) {
    let inbound = json!({ "port": 80, "tags": { "kuma.io/service": "web" } });
    let networking = json!({ "address": address, "inbound": [inbound] });
    let body = json!({ "type": "Dataplane", "mesh": "default", "name": name, "networking": networking });
    let answer = cp.put(&format!("/meshes/default/dataplanes/{name}"), &body).await;
    assert!(answer.status.is_success(), "{}", answer.text);
}

async fn metrics(cp: &TestControlPlane, backends: &Value) {
    let spec = json!({ "default": { "backends": backends } });
    let body = json!({ "type": "MeshMetric", "mesh": "default", "name": "metrics", "spec": spec });
    let answer = cp.put("/meshes/default/meshmetrics/metrics", &body).await;
    assert!(answer.status.is_success(), "{}", answer.text);
}
