//! Acknowledged writes survive a restart.

use std::time::Duration;

use hyper::StatusCode;
use kodiak_model::{GoDuration, Labels, ResourceKey};
use kodiak_store::{Expect, Write};
use serde_json::json;

use crate::harness::TestControlPlane;

#[tokio::test]
async fn all_resources_survive_a_restart() {
    let cp = TestControlPlane::start().await;
    for n in 0..50 {
        let name = format!("m{n}");
        let mesh = json!({ "type": "Mesh", "name": name, "skipCreatingInitialPolicies": ["*"] });
        if n < 3 {
            assert_eq!(cp.put(&format!("/meshes/{name}"), &mesh).await.status, StatusCode::CREATED);
        }
        let timeout = json!({
            "type": "MeshTimeout", "mesh": "default", "name": name,
            "spec": { "rules": [{ "default": { "idleTimeout": format!("{}s", n + 1) } }] },
        });
        assert_eq!(cp.put(&format!("/meshes/default/meshtimeouts/{name}"), &timeout).await.status, StatusCode::CREATED);
    }
    let meshes = cp.get("/meshes").await.text;
    let timeouts = cp.get("/meshtimeouts").await.text;
    let old = cp.http().to_string();
    let cp = cp.restart().await;
    let new = cp.http().to_string();
    assert_eq!(cp.get("/meshes").await.text.replace(&new, &old), meshes);
    assert_eq!(cp.get("/meshtimeouts").await.text.replace(&new, &old), timeouts);
}

#[tokio::test]
async fn secrets_are_not_readable_in_the_file() {
    let cp = TestControlPlane::start().await;
    let secret = "c2VjcmV0LXRleHQtdGhhdC1pcy1ub3QtaW4tdGhlLWZpbGU=";
    let body = json!({ "type": "Secret", "mesh": "default", "name": "s", "data": secret });
    assert_eq!(cp.put("/meshes/default/secrets/s", &body).await.status, StatusCode::CREATED);
    let bytes = std::fs::read(cp.folder().join("kodiak.redb")).unwrap();
    let holds = |needle: &[u8]| bytes.windows(needle.len()).any(|window| window == needle);
    assert!(!holds(secret.as_bytes()));
    assert!(!holds(b"PRIVATE KEY"));
    let cp = cp.restart().await;
    assert_eq!(cp.get("/meshes/default/secrets/s").await.json()["data"], secret);
}

#[tokio::test]
async fn error_of_a_store_in_use_names_its_file() {
    let cp = TestControlPlane::start().await;
    let error = kodiak_cp::ControlPlane::start(crate::harness::config(cp.folder())).await.err().unwrap();
    assert!(format!("{error:#}").contains("kodiak.redb is in use by another process"), "{error:#}");
}

/// The proxy was connected when the control plane was killed, and exited before it was back.
#[tokio::test]
async fn proxy_that_exited_while_the_control_plane_was_down_is_offline_after_the_grace_period() {
    let cp = TestControlPlane::start().await;
    let dataplane = json!({
        "type": "Dataplane", "mesh": "default", "name": "web-1",
        "networking": { "address": "10.0.0.1", "inbound": [{ "port": 80, "tags": { "kuma.io/service": "web" } }] },
    });
    assert_eq!(cp.put("/meshes/default/dataplanes/web-1", &dataplane).await.status, StatusCode::CREATED);
    let subscription = json!({
        "id": "1", "controlPlaneInstanceId": "killed-1234", "connectTime": "2026-01-01T00:00:00Z",
    });
    let insight = Write::Put {
        key: ResourceKey::in_mesh("DataplaneInsight", "default", "web-1"),
        spec: json!({ "subscriptions": [subscription] }).to_string().into(),
        labels: Labels::new(),
        owner: Some(ResourceKey::in_mesh("Dataplane", "default", "web-1")),
        expect: Expect::Absent,
    };
    cp.control_plane.catalog.store().commit(insight.into()).await.unwrap();
    let cp = cp.restart_with(|config| config.mesh_service.connection_grace_period = GoDuration::from_secs(2)).await;
    let overview = async || cp.get("/meshes/default/dataplanes+insights/web-1").await.json();
    let disconnected = async {
        while overview().await["dataplaneInsight"]["subscriptions"][0]["disconnectTime"].is_null() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(Duration::from_mins(1), disconnected).await.expect("it is disconnected after the grace");
}
