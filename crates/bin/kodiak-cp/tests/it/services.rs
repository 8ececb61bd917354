//! MeshServices that are generated from Dataplanes.

use std::time::Duration;

use hyper::StatusCode;
use kodiak_model::{GoDuration, ResourceKey, labels::GRACE_STARTED};
use serde_json::{Value, json};

use crate::harness::TestControlPlane;

async fn set_mode(cp: &TestControlPlane, mode: &str) {
    let mesh = json!({ "type": "Mesh", "name": "default", "meshServices": { "mode": mode } });
    assert_eq!(cp.put("/meshes/default", &mesh).await.status, StatusCode::OK);
}

async fn put_dataplane(cp: &TestControlPlane, name: &str, service: &str, port: u32) {
    let tags = json!({ "kuma.io/service": service, "kuma.io/protocol": "http" });
    let dataplane = json!({
        "type": "Dataplane", "mesh": "default", "name": name,
        "networking": { "address": "10.0.0.1", "inbound": [{ "port": port, "tags": tags }] },
    });
    assert!(cp.put(&format!("/meshes/default/dataplanes/{name}"), &dataplane).await.status.is_success());
}

async fn delete_dataplane(cp: &TestControlPlane, name: &str) {
    assert_eq!(cp.delete(&format!("/meshes/default/dataplanes/{name}")).await.status, StatusCode::OK);
}

fn path(name: &str) -> String {
    format!("/meshes/default/meshservices/{name}")
}

/// Waits until a MeshService matches; it is null when it does not exist.
async fn eventually(cp: &TestControlPlane, name: &str, wanted: impl Fn(&Value) -> bool) -> Value {
    loop {
        let answer = cp.get(&path(name)).await;
        let service = if answer.status == StatusCode::OK { answer.json() } else { Value::Null };
        if wanted(&service) {
            return service;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

fn revision(cp: &TestControlPlane, name: &str) -> u64 {
    let key = ResourceKey::in_mesh("MeshService", "default", name);
    cp.control_plane.catalog.store().get(&key).unwrap().revision
}

/// With a short grace period for generated MeshServices.
async fn start() -> TestControlPlane {
    TestControlPlane::start_with(|config| config.mesh_service.disable_grace_period = GoDuration::from_secs(0)).await
}

/// Whether it was reconciled with so many Dataplanes.
fn with_total(total: u32) -> impl Fn(&Value) -> bool {
    move |service| service["status"]["dataplaneProxies"]["total"] == total
}

#[tokio::test]
async fn generated_mesh_services_follow_the_dataplanes_of_a_mesh() {
    let cp = start().await;
    // No MeshServices while the mode is Disabled.
    put_dataplane(&cp, "web-1", "web", 8080).await;
    assert_eq!(cp.get(&path("web")).await.status, StatusCode::NOT_FOUND);
    set_mode(&cp, "Everywhere").await;
    let service = eventually(&cp, "web", Value::is_object).await;
    assert_eq!(
        service["spec"],
        json!({
            "state": "Unavailable",
            "selector": { "dataplaneTags": { "kuma.io/service": "web" } },
            "ports": [{ "name": "8080", "port": 8080, "targetPort": 8080, "appProtocol": "http" }],
            "identities": [{ "type": "ServiceTag", "value": "web" }],
        })
    );
    assert_eq!(
        service["labels"],
        json!({
            "kuma.io/mesh": "default", "kuma.io/display-name": "web", "kuma.io/managed-by": "meshservice-generator",
            "kuma.io/env": "universal", "kuma.io/zone": "default", "kuma.io/origin": "zone",
        })
    );
    delete_dataplane(&cp, "web-1").await;
    let waiting = eventually(&cp, "web", |service| service["labels"][GRACE_STARTED].is_string()).await;
    assert_eq!((&waiting["spec"], &waiting["creationTime"]), (&service["spec"], &service["creationTime"]));
    // An exported MeshService can be applied.
    let again = cp.put("/meshes/default/meshservices/web", &waiting).await;
    assert_eq!(again.status, StatusCode::OK, "{}", again.text);
    put_dataplane(&cp, "web-2", "web", 8080).await;
    let back = eventually(&cp, "web", |service| service["labels"][GRACE_STARTED].is_null()).await;
    assert_eq!(back["labels"], service["labels"]);
    set_mode(&cp, "Disabled").await;
    eventually(&cp, "web", Value::is_null).await;
}

#[tokio::test]
async fn workload_is_generated_from_the_label_of_a_dataplane_and_deleted_with_it() {
    let cp = start().await;
    let dataplane = json!({
        "type": "Dataplane", "mesh": "default", "name": "shop-1", "labels": { "kuma.io/workload": "shop" },
        "networking": { "address": "10.0.0.1", "inbound": [{ "port": 80, "tags": { "kuma.io/service": "shop" } }] },
    });
    assert_eq!(cp.put("/meshes/default/dataplanes/shop-1", &dataplane).await.status, StatusCode::CREATED);
    let workload = async || cp.get("/meshes/default/workloads/shop").await;
    // Counts are stored after the Workload itself.
    let counts = json!({ "connected": 0, "healthy": 1, "total": 1 });
    let shown = loop {
        let answer = workload().await;
        if answer.status == StatusCode::OK && answer.json()["status"]["dataplaneProxies"] == counts {
            break answer.json();
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    assert_eq!(shown["labels"]["kuma.io/managed-by"], "workload-generator");
    assert_eq!(shown["kri"], "kri_wl_default_default__shop_");
    delete_dataplane(&cp, "shop-1").await;
    while workload().await.status != StatusCode::NOT_FOUND {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn mesh_service_of_a_user_gets_a_status_only() {
    let cp = start().await;
    let by_hand = json!({
        "type": "MeshService", "mesh": "default", "name": "web",
        "spec": { "selector": { "dataplaneTags": { "team": "blue" } }, "ports": [{ "port": 1 }] },
    });
    assert_eq!(cp.put(&path("web"), &by_hand).await.status, StatusCode::CREATED);
    let before = eventually(&cp, "web", |service| service["status"]["vips"][0]["ip"] == "241.0.0.0").await;
    assert_eq!(before["status"]["addresses"][0]["hostname"], "web.svc.mesh.local");
    set_mode(&cp, "Exclusive").await;
    put_dataplane(&cp, "web-1", "web", 8080).await;
    put_dataplane(&cp, "db-1", "db", 5432).await;
    eventually(&cp, "db", Value::is_object).await;
    let mut conflict = eventually(&cp, "web", |service| !service["status"]["conditions"].is_null()).await;
    assert_eq!(conflict["status"]["conditions"][0]["reason"], "NameConflict");
    conflict["status"].as_object_mut().unwrap().shift_remove("conditions");
    assert_eq!(conflict, before);
    delete_dataplane(&cp, "web-1").await;
    set_mode(&cp, "Disabled").await;
    eventually(&cp, "db", Value::is_null).await;
    assert_eq!(cp.get(&path("web")).await.json(), before);
}

#[tokio::test]
async fn equal_state_causes_no_writes() {
    let cp = TestControlPlane::start().await;
    set_mode(&cp, "Everywhere").await;
    put_dataplane(&cp, "web-1", "web", 8080).await;
    put_dataplane(&cp, "web-2", "web", 8080).await;
    eventually(&cp, "web", with_total(2)).await;
    put_dataplane(&cp, "web-2", "web", 9090).await;
    let service = eventually(&cp, "web", |service| !service["status"]["conditions"].is_null()).await;
    assert_eq!(service["status"]["conditions"][0]["reason"], "DataplanePortsDiffer");
    let before = revision(&cp, "web");
    // The MeshService that is generated last shows that all earlier changes were reconciled.
    put_dataplane(&cp, "web-2", "web", 9091).await;
    set_mode(&cp, "ReachableBackends").await;
    put_dataplane(&cp, "db-1", "db", 5432).await;
    eventually(&cp, "db", with_total(1)).await;
    assert_eq!(revision(&cp, "web"), before);
    let cp = cp.restart().await;
    put_dataplane(&cp, "last-1", "last", 1).await;
    eventually(&cp, "last", with_total(1)).await;
    assert_eq!(revision(&cp, "web"), before);
    assert_eq!(eventually(&cp, "web", Value::is_object).await, service);
}
