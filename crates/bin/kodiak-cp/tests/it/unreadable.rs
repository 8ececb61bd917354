//! A stored policy that this version cannot read: the last readable version stays in use, a permission never widens
//! access, and an operator sees it everywhere.

use kodiak_model::ResourceKey;
use kodiak_store::{Expect, Write};
use serde_json::{Value, json};

use crate::harness::{TestControlPlane, get};

const LISTENER: &str = "type.googleapis.com/envoy.config.listener.v3.Listener";

/// Stores a spec that this version cannot read.
async fn store(cp: &TestControlPlane, kind: &str, name: &str, spec: &Value) {
    let write = Write::Put {
        key: ResourceKey::in_mesh(kind, "default", name),
        spec: spec.to_string().into(),
        labels: [("kuma.io/mesh".to_owned(), "default".to_owned())].into(),
        owner: Some(ResourceKey::global("Mesh", "default")),
        expect: Expect::Any,
    };
    cp.control_plane.catalog.store().commit(write.into()).await.unwrap();
}

async fn mesh_with_a_broad_allow() -> TestControlPlane {
    let cp = TestControlPlane::start().await;
    let mtls = json!({ "enabledBackend": "ca-1", "backends": [{ "name": "ca-1", "type": "builtin" }] });
    cp.put("/meshes/default", &json!({ "type": "Mesh", "name": "default", "mtls": mtls })).await;
    let inbound = json!([{ "port": 8080, "tags": { "kuma.io/service": "web", "kuma.io/protocol": "http" } }]);
    let networking = json!({ "address": "127.0.0.1", "inbound": inbound });
    let dataplane = json!({ "type": "Dataplane", "mesh": "default", "name": "web-1", "networking": networking });
    assert!(cp.put("/meshes/default/dataplanes/web-1", &dataplane).await.status.is_success());
    let rules =
        json!([{ "default": { "allow": [{ "spiffeID": { "type": "Prefix", "value": "spiffe://default" } }] } }]);
    let allow = json!({
        "type": "MeshTrafficPermission", "mesh": "default", "name": "allow", "spec": { "rules": rules },
    });
    let put = cp.put("/meshes/default/meshtrafficpermissions/allow", &allow).await;
    assert!(put.status.is_success(), "{}", put.text);
    store(&cp, "DataplaneInsight", "web-1", &json!({ "metadata": {} })).await;
    cp
}

/// RBAC filters of the inbound of `web-1`.
async fn rbac(cp: &TestControlPlane) -> String {
    let config = cp.get("/meshes/default/dataplanes/web-1/_config").await.json();
    let listeners = config["xds"][LISTENER].as_object().unwrap();
    let (_, inbound) = listeners.iter().find(|(name, _)| name.contains("inbound")).unwrap();
    inbound.to_string()
}

async fn quarantined(cp: &TestControlPlane) -> Vec<(String, String)> {
    let listed = cp.get("/_quarantine").await.json();
    let text = |item: &Value, field: &str| item[field].as_str().unwrap().to_owned();
    listed["items"].as_array().unwrap().iter().map(|item| (text(item, "name"), text(item, "error"))).collect()
}

#[tokio::test]
async fn unreadable_permission_denies_beside_a_broad_allow() {
    let cp = mesh_with_a_broad_allow().await;
    assert!(!rbac(&cp).await.contains("\"DENY\""), "all callers are allowed");
    store(&cp, "MeshTrafficPermission", "deny", &json!({ "rules": 7 })).await;
    let denied = rbac(&cp).await;
    assert!(denied.contains("\"DENY\"") && denied.contains("kri_mtp_default__"), "{denied}");

    let status = cp.get("/meshes/default/meshtrafficpermissions/deny/_status").await.json();
    let reasons = status["reasons"].as_array().unwrap();
    let unreadable = reasons.iter().find(|reason| reason["reason"] == "Unreadable").expect("it says so");
    assert!(unreadable["message"].as_str().unwrap().contains("all calls to the proxies it targets are denied"));
    let held = quarantined(&cp).await;
    assert_eq!(held.len(), 1, "{held:?}");
    assert_eq!(held[0].0, "deny");
    let metrics = get(cp.control_plane.diagnostics, "/metrics").await.text;
    assert!(metrics.contains("kodiak_unreadable_resources 1"), "{metrics}");

    // Writing it again fixes it.
    let rules =
        json!([{ "default": { "deny": [{ "spiffeID": { "type": "Exact", "value": "spiffe://default/x" } }] } }]);
    let deny =
        json!({ "type": "MeshTrafficPermission", "mesh": "default", "name": "deny", "spec": { "rules": rules } });
    assert!(cp.put("/meshes/default/meshtrafficpermissions/deny", &deny).await.status.is_success());
    assert!(rbac(&cp).await.contains("spiffe://default/x"));
    assert_eq!(quarantined(&cp).await, []);
}

#[tokio::test]
async fn last_readable_version_stays_in_use_and_others_are_listed() {
    let cp = mesh_with_a_broad_allow().await;
    let before = rbac(&cp).await;
    store(&cp, "MeshTrafficPermission", "allow", &json!({ "rules": 7 })).await;
    assert_eq!(rbac(&cp).await, before);
    // Without a readable version, another kind of policy has no effect and is still listed.
    store(&cp, "MeshTimeout", "new", &json!({ "to": 7 })).await;
    let listed = cp.get("/meshes/default/_policies?name=new").await.json();
    assert_eq!(listed["total"], 1, "{listed}");
    assert_eq!(listed["items"][0]["state"], "NotInForce");
    assert_eq!(listed["items"][0]["reasons"][0]["reason"], "Unreadable");
    assert_eq!(quarantined(&cp).await.len(), 2);
}
