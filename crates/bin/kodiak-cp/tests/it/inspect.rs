//! Inspection of offline proxies. Tests of the command line inspect connected ones.

use std::{net::SocketAddr, time::Duration};

use hyper::{Method, StatusCode};
use kodiak_ads::{Credential, Hello, Protocol, Proxies as _, Session};
use kodiak_envoy::{envoy::config::core::v3::Node, json::from_json};
use kodiak_model::{Labels, ResourceKey};
use kodiak_store::{Expect, Write};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::harness::TestControlPlane;

const LISTENER: &str = "type.googleapis.com/envoy.config.listener.v3.Listener";

async fn put_dataplane(cp: &TestControlPlane, name: &str) {
    let inbounds = json!([
        { "port": 8080, "tags": { "kuma.io/service": "web", "kuma.io/protocol": "http" } },
        { "port": 9090, "name": "metrics", "tags": { "kuma.io/service": "metrics" } },
    ]);
    let dataplane = json!({
        "type": "Dataplane", "mesh": "default", "name": name,
        "networking": { "address": "127.0.0.1", "inbound": inbounds, "admin": { "port": 1 } },
    });
    let put = cp.put(&format!("/meshes/default/dataplanes/{name}"), &dataplane).await;
    assert_eq!(put.status, StatusCode::CREATED, "{}", put.text);
}

/// DataplaneInsight of a proxy that was connected to another control plane.
async fn put_insight(cp: &TestControlPlane, name: &str, insight: &Value) {
    let write = Write::Put {
        key: ResourceKey::in_mesh("DataplaneInsight", "default", name),
        spec: insight.to_string().into(),
        labels: Labels::new(),
        owner: Some(ResourceKey::in_mesh("Dataplane", "default", name)),
        expect: Expect::Absent,
    };
    cp.control_plane.catalog.store().commit(write.into()).await.unwrap();
}

async fn put_permission(cp: &TestControlPlane, name: &str, labels: &Value, target: &Value) {
    let policy = json!({
        "type": "MeshTrafficPermission", "mesh": "default", "name": name, "labels": labels,
        "spec": { "targetRef": target, "from": [{ "targetRef": { "kind": "Mesh" }, "default": { "action": "Allow" } }] },
    });
    let put = cp.put(&format!("/meshes/default/meshtrafficpermissions/{name}"), &policy).await;
    assert!(put.status.is_success(), "{}", put.text);
}

#[tokio::test]
async fn offline_proxy_is_shown_with_the_configuration_it_would_get() {
    let cp = TestControlPlane::start().await;
    put_dataplane(&cp, "web-1").await;
    let path = "/meshes/default/dataplanes/web-1/_config";
    let never = cp.get(path).await;
    assert_eq!((never.status, never.json()["detail"].as_str()), (StatusCode::NOT_FOUND, Some("Not found")));
    assert_eq!(never.json()["title"], "Could not retrieve the DataplaneInsight");

    let metadata =
        json!({ "dataplane.admin.socketPath": "/tmp/admin.sock", "dataplane.readinessReporter.port": "9902" });
    put_insight(&cp, "web-1", &json!({ "metadata": metadata })).await;
    let config = cp.get(path).await;
    assert_eq!(config.status, StatusCode::OK, "{}", config.text);
    let listeners = &config.json()["xds"][LISTENER];
    assert_eq!(listeners["inbound:127.0.0.1:8080"]["address"]["socketAddress"]["portValue"], 8080);
    let admin = listeners["kuma:envoy:admin"].to_string();
    assert!(admin.contains("privateKey") && admin.contains("[redacted]"), "{admin}");
    assert_eq!(config.json().get("diff"), None);
    assert_eq!(cp.get(&format!("{path}?shadow=true&include=diff")).await.json()["diff"], json!([]));
}

#[tokio::test]
async fn invalid_configuration_is_reported_with_its_fault() {
    let cp = TestControlPlane::start().await;
    put_dataplane(&cp, "web-1").await;
    // The admin listener conflicts with the first inbound.
    let metadata = json!({ "dataplane.admin.socketPath": "/tmp/admin.sock", "dataplane.admin.port": "8080" });
    put_insight(&cp, "web-1", &json!({ "metadata": metadata })).await;
    let config = cp.get("/meshes/default/dataplanes/web-1/_config").await;
    assert_eq!(config.status, StatusCode::UNPROCESSABLE_ENTITY, "{}", config.text);
    assert!(config.json()["detail"].as_str().unwrap().contains("127.0.0.1:8080"), "{}", config.text);
}

#[tokio::test]
async fn invalid_inspection_requests_are_rejected() {
    let cp = TestControlPlane::start().await;
    put_dataplane(&cp, "web-1").await;
    put_insight(&cp, "web-1", &json!({})).await;
    for (query, parameter) in [
        ("_config?shadow=perhaps", "shadow"),
        ("_config?include=everything", "include"),
        ("xds?include_eds=2", "include_eds"),
        ("stats?format=html", "format"),
        ("stats?usedonly=", "usedonly"),
        ("clusters?format=yaml", "format"),
    ] {
        let answer = cp.get(&format!("/meshes/default/dataplanes/web-1/{query}")).await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{query}: {}", answer.text);
        let detail = format!("bad request: unsupported value for query parameter '{parameter}'");
        assert_eq!(answer.json()["detail"], detail, "{query}");
    }
    for what in
        ["_config", "_status", "_matches", "_rules", "_layout", "xds", "stats", "clusters", "logging", "quitquitquit"]
    {
        let nobody = cp.get(&format!("/meshes/default/dataplanes/nobody/{what}")).await;
        assert_eq!((nobody.status, nobody.json()["detail"].as_str()), (StatusCode::NOT_FOUND, Some("Not found")));
        let nowhere = cp.get(&format!("/meshes/nowhere/dataplanes/web-1/{what}")).await;
        assert_eq!(nowhere.status, StatusCode::NOT_FOUND, "{what}");
    }
    let other = cp.get("/meshes/default/dataplanes/web-1/logging").await;
    assert_eq!((other.status, other.json()["detail"].as_str()), (StatusCode::NOT_FOUND, Some("Not found")));
    assert_eq!(cp.get("/meshes/default/dataplanes/web-1/_unheard").await.text, "404: Page Not Found");
}

#[tokio::test]
async fn shadow_policies_are_shown_on_request_only() {
    let cp = TestControlPlane::start().await;
    put_dataplane(&cp, "web-1").await;
    put_insight(&cp, "web-1", &json!({})).await;
    let rule = json!({ "default": { "connectionTimeout": "77s" } });
    let tried = json!({
        "type": "MeshTimeout", "mesh": "default", "name": "tried", "labels": { "kuma.io/effect": "shadow" },
        "spec": { "targetRef": { "kind": "Dataplane" }, "rules": [rule] },
    });
    assert_eq!(cp.put("/meshes/default/meshtimeouts/tried", &tried).await.status, StatusCode::CREATED);
    let path = "/meshes/default/dataplanes/web-1/_config";
    let timeout = "/xds/type.googleapis.com~1envoy.config.cluster.v3.Cluster/localhost:8080/connectTimeout";
    let is = cp.get(&format!("{path}?include=diff")).await.json();
    assert_eq!((is.pointer(timeout).unwrap(), &is["diff"]), (&json!("10s"), &json!([])));
    let would_be = cp.get(&format!("{path}?shadow=true&include=diff")).await.json();
    assert_eq!(would_be.pointer(timeout).unwrap(), "77s");
    let at_first = timeout.strip_prefix("/xds").unwrap();
    let diff = would_be["diff"].as_array().unwrap().iter().filter(|operation| operation["path"] == at_first);
    let diff: Vec<_> = diff.map(|operation| (operation["op"].clone(), operation["value"].clone())).collect();
    let expected = [("test", "10s"), ("remove", "10s"), ("add", "77s")];
    assert_eq!(diff, expected.map(|(op, value)| (json!(op), json!(value))));
    let status = cp.get("/meshes/default/meshtimeouts/tried/_status").await.json();
    assert_eq!((&status["state"], &status["reasons"][0]["reason"]), (&json!("NotInForce"), &json!("Shadow")));
}

#[tokio::test]
async fn policies_of_an_inbound_are_ordered_by_precedence() {
    let cp = TestControlPlane::start().await;
    put_dataplane(&cp, "web-1").await;
    let labels = json!({});
    let metrics = json!({ "kind": "Dataplane", "name": "web-1", "sectionName": "metrics" });
    put_permission(&cp, "a-metrics", &labels, &metrics).await;
    put_permission(&cp, "b-all", &labels, &json!({ "kind": "Mesh" })).await;
    put_permission(&cp, "c-other", &labels, &json!({ "kind": "Dataplane", "name": "other" })).await;
    put_permission(&cp, "d-tried", &json!({ "kuma.io/effect": "shadow" }), &json!({ "kind": "Mesh" })).await;
    let found = cp.get("/meshes/default/dataplanes/web-1/_matches").await.json();
    let names = |inbound: usize| {
        let kinds = found["inbounds"][inbound]["policies"].as_array().unwrap();
        let permissions = kinds.iter().find(|of_kind| of_kind["kind"] == "MeshTrafficPermission").unwrap();
        let origins = permissions["origins"].as_array().unwrap();
        origins.iter().map(|origin| origin["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(found["inbounds"][1]["inbound"]["name"], "metrics");
    assert_eq!((names(0), names(1)), (vec!["b-all".to_owned()], vec!["b-all".to_owned(), "a-metrics".to_owned()]));
    // Timeouts come first; they are default policies of the mesh.
    let timeouts = &found["inbounds"][0]["policies"][0];
    assert_eq!((&timeouts["kind"], timeouts["origins"].as_array().unwrap().len()), (&json!("MeshTimeout"), 1));
    assert_eq!(timeouts["origins"][0]["kri"], "kri_mt_default_default__mesh-timeout-all-default_");
}

#[tokio::test]
async fn proxy_of_another_control_plane_is_not_reported_as_offline() {
    let cp = TestControlPlane::start().await;
    let open = json!([{ "connectTime": "2026-11-15T12:00:00Z", "controlPlaneInstanceId": "cp-2" }]);
    for (name, subscriptions, expected) in [
        ("there", open, "the proxy is connected to control plane \"cp-2\"; send the request there"),
        ("away", json!([]), "the proxy is not connected"),
    ] {
        put_dataplane(&cp, name).await;
        put_insight(&cp, name, &json!({ "subscriptions": subscriptions })).await;
        let status = cp.get(&format!("/meshes/default/dataplanes/{name}/_status")).await;
        assert_eq!(status.status, StatusCode::NOT_FOUND);
        assert_eq!(status.json()["detail"], expected);
    }
}

/// The proxy connects from `peer`, with an admin interface at `port` of the address of its Dataplane.
async fn connect(cp: &TestControlPlane, name: &str, peer: &str, port: u16) -> Session {
    let body = json!({ "mesh": "default", "name": name, "validFor": "1h" }).to_string();
    let token = cp.send(Method::POST, "/tokens/dataplane", &[], body).await.text;
    let metadata = json!({ "dataplane.admin.port": port.to_string() });
    put_insight(cp, name, &json!({ "metadata": metadata })).await;
    let node = Node { id: format!("default.{name}"), metadata: Some(from_json(&metadata).unwrap()), ..Node::default() };
    let (credential, peer) = (Credential(Some(token)), SocketAddr::new(peer.parse().unwrap(), 1));
    let hello = Hello { node, credential, protocol: Protocol::Delta, peer };
    cp.control_plane.registry.connect(hello).await.map_err(|closing| closing.message).unwrap()
}

/// Status and detail of each page that Envoy is asked for.
async fn asked(cp: &TestControlPlane, name: &str) -> Vec<(StatusCode, String)> {
    let mut answers = Vec::new();
    for page in ["xds", "stats", "clusters"] {
        let answer = cp.get(&format!("/meshes/default/dataplanes/{name}/{page}")).await;
        answers.push((answer.status, answer.json()["detail"].as_str().unwrap_or_default().to_owned()));
    }
    answers
}

/// Which of these it was is in the log of the control plane, and no business of those who ask.
#[tokio::test]
async fn envoy_that_does_not_answer_has_one_error_text() {
    let cp = TestControlPlane::start().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let open = listener.local_addr().unwrap().port();
    let api = cp.control_plane.https.unwrap().port();
    for (name, peer, port) in [
        ("closed", "127.0.0.1", 1),
        ("elsewhere", "192.0.2.1", open),
        // A TLS server with a certificate of another CA, and the control plane's own.
        ("control-plane", "127.0.0.1", api),
    ] {
        put_dataplane(&cp, name).await;
        let _session = connect(&cp, name, peer, port).await;
        for answer in asked(&cp, name).await {
            let detail = "Envoy's admin interface did not answer; the log of the control plane has the reason";
            assert_eq!(answer, (StatusCode::BAD_GATEWAY, detail.to_owned()), "{name}");
        }
    }
    // Nobody was connected to an address that its proxy does not come from.
    let nobody = tokio::time::timeout(Duration::from_millis(200), listener.accept()).await;
    assert!(nobody.is_err(), "{nobody:?}");
}

#[tokio::test]
async fn only_a_connected_proxy_is_asked() {
    let cp = TestControlPlane::start().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    put_dataplane(&cp, "web-1").await;
    let session = connect(&cp, "web-1", "127.0.0.1", listener.local_addr().unwrap().port()).await;
    let stats = cp.get("/meshes/default/dataplanes/web-1/stats");
    tokio::select! {
        answer = stats => panic!("{}", answer.text),
        accepted = listener.accept() => assert!(accepted.is_ok()),
    }
    drop(session);
    for answer in asked(&cp, "web-1").await {
        assert_eq!(answer, (StatusCode::NOT_FOUND, "the proxy is not connected".to_owned()));
    }
    let nobody = tokio::time::timeout(Duration::from_millis(200), listener.accept()).await;
    assert!(nobody.is_err(), "{nobody:?}");
}
