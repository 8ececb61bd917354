//! Default resources of a new control plane.

use std::time::Duration;

use hyper::StatusCode;

use crate::harness::TestControlPlane;

#[tokio::test]
async fn new_control_plane_has_a_mesh_a_zone_and_keys() {
    let cp = TestControlPlane::start().await;
    for path in [
        "/meshes/default",
        "/zones/default",
        "/meshes/default/meshtimeouts/mesh-timeout-all-default",
        "/meshes/default/meshtimeouts/mesh-gateways-timeout-all-default",
        "/meshes/default/meshcircuitbreakers/mesh-circuit-breaker-all-default",
        "/meshes/default/meshretries/mesh-retry-all-default",
        "/meshes/default/secrets/dataplane-token-signing-key-default-1",
        "/globalsecrets/envoy-admin-ca",
        "/global-secrets/zone-token-signing-key-1",
        "/global-secrets/user-token-signing-key-1",
        "/global-secrets/admin-user-token",
        "/hostnamegenerators/local-mesh-external-service",
        "/hostnamegenerators/local-universal-mesh-service",
    ] {
        assert_eq!(cp.get(path).await.status, StatusCode::OK, "{path}");
    }
    let generator = cp.get("/hostnamegenerators/local-universal-mesh-service").await.json();
    assert_eq!(generator["labels"], serde_json::json!({ "kuma.io/origin": "zone" }));
    // No request is allowed by default.
    assert_eq!(cp.get("/meshes/default/meshtrafficpermissions").await.json()["total"], 0);
}

#[tokio::test]
async fn deleted_default_resources_stay_deleted() {
    let cp = TestControlPlane::start().await;
    cp.delete("/hostnamegenerators/local-universal-mesh-service").await;
    cp.delete("/meshes/default/meshretries/mesh-retry-all-default").await;
    let cp = cp.restart().await;
    assert_eq!(cp.get("/meshes/default/meshretries").await.json()["total"], 0);
    assert_eq!(cp.delete("/meshes/default").await.status, StatusCode::OK);
    let cp = cp.restart().await;
    assert_eq!(cp.get("/meshes/default").await.status, StatusCode::NOT_FOUND);
    let generators = cp.get("/hostnamegenerators").await.json();
    assert_eq!(generators["total"], 1);
}

#[tokio::test]
async fn default_resources_can_be_disabled() {
    let cp = TestControlPlane::start_with(|config| {
        config.defaults.skip_mesh_creation = true;
        config.defaults.skip_hostname_generators = true;
        config.api_server.authn.tokens.bootstrap_admin_token = false;
    })
    .await;
    assert_eq!(cp.get("/meshes").await.json()["total"], 0);
    assert_eq!(cp.get("/hostnamegenerators").await.json()["total"], 0);
    assert_eq!(cp.get("/globalsecrets/admin-user-token").await.status, StatusCode::NOT_FOUND);
}

/// Whatever the control plane is doing at that moment: creating the keys of its own default mesh takes a while.
#[tokio::test]
async fn mesh_written_during_the_first_start_stays() {
    let mesh = serde_json::json!({
        "type": "Mesh", "name": "default", "skipCreatingInitialPolicies": ["*"],
        "networking": { "outbound": { "passthrough": false } },
    });
    for n in 0..16 {
        let cp = TestControlPlane::starting().await;
        tokio::time::sleep(Duration::from_millis(25 * n)).await;
        let put = cp.put("/meshes/default", &mesh).await;
        assert!(put.status.is_success(), "{}", put.text);
        cp.wait_until_ready().await;
        let stored = cp.get("/meshes/default").await.json();
        assert_eq!(stored["networking"]["outbound"]["passthrough"], false, "written {} ms after the start", 25 * n);
    }
}
