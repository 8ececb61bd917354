//! Answers about calls: `_graph`, `_why`, `_reachability` and `_permissions/check`.

use hyper::{Method, StatusCode};
use kodiak_cp::config::ReachabilityMode;
use serde_json::{Value, json};

use crate::harness::TestControlPlane;

/// `web` and `backend`, with transparent proxies.
async fn mesh() -> TestControlPlane {
    let cp = TestControlPlane::start().await;
    for (name, service) in [("web-1", "web"), ("backend-1", "backend")] {
        let networking = json!({
            "address": "10.0.0.1",
            "inbound": [{ "port": 8080, "tags": { "kuma.io/service": service } }],
            "transparentProxying": { "redirectPortInbound": 15006, "redirectPortOutbound": 15001 },
        });
        let dataplane = json!({ "type": "Dataplane", "mesh": "default", "name": name, "networking": networking });
        let put = cp.put(&format!("/meshes/default/dataplanes/{name}"), &dataplane).await;
        assert_eq!(put.status, StatusCode::CREATED, "{}", put.text);
    }
    cp
}

fn all() -> Value {
    json!({ "kind": "all" })
}

#[tokio::test]
async fn graph_of_a_mesh_without_mutual_tls_is_open() {
    let cp = mesh().await;
    let graph = cp.get("/meshes/default/_graph").await.json();
    let edge = json!({ "clients": all(), "destinations": all(), "reason": { "kind": "open" } });
    assert_eq!(graph, json!({ "mesh": "default", "clients": 2, "destinations": 2, "edges": [edge] }));
    let part = cp.get("/meshes/default/_graph?client=web&destination=backend").await.json();
    assert_eq!(part["edges"][0]["clients"], json!({ "kind": "only", "names": ["web"] }));
    assert_eq!(cp.get("/meshes/nothing/_graph").await.status, StatusCode::NOT_FOUND);
    assert_eq!(cp.get("/meshes/default/_graph?shadow=perhaps").await.status, StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn unknown_names_are_answered_with_similar_ones() {
    let cp = mesh().await;
    let unknown = cp.get("/meshes/default/_why?client=web&destination=bakend").await;
    assert_eq!(unknown.status, StatusCode::NOT_FOUND);
    assert_eq!(unknown.json()["detail"], "there is no destination \"bakend\"; did you mean backend?");
    let unknown = cp.get("/meshes/default/_graph?client=wbe").await;
    assert_eq!(unknown.json()["detail"], "there is no Dataplane and no service \"wbe\"; did you mean web?");
    for path in ["_why?client=web", "_why?destination=web", "_why?client=web&destination="] {
        assert_eq!(cp.get(&format!("/meshes/default/{path}")).await.status, StatusCode::BAD_REQUEST, "{path}");
    }
    let answer = cp.get("/meshes/default/_why?client=web&destination=backend").await.json();
    let names: Vec<&Value> = answer["steps"].as_array().unwrap().iter().map(|step| &step["step"]).collect();
    let expected = ["name", "address", "outbound", "cluster", "endpoints", "tls", "permission", "proxies"];
    assert_eq!(names, expected);
    // No proxy is connected.
    assert_eq!(answer["verdict"], "fails");
}

#[tokio::test]
async fn consumers_are_listed_in_pages() {
    let cp = mesh().await;
    let page = cp.get("/meshes/default/_reachability?size=1").await.json();
    assert_eq!((&page["total"], page["items"].as_array().unwrap().len()), (&json!(2), 1));
    assert_eq!(page["items"][0]["dataplane"], "backend-1");
    assert!(page["next"].as_str().unwrap().contains("offset=1"), "{page}");
    let one = cp.get("/meshes/default/_reachability?name=web").await.json();
    assert_eq!((&one["total"], &one["items"][0]["exempt"]), (&json!(1), &json!("notEnforced")));
    assert_eq!(one["items"][0]["mode"], "off");
}

#[tokio::test]
async fn setting_of_the_control_plane_is_the_mode() {
    let cp = TestControlPlane::start_with(|config| config.reachability.mode = ReachabilityMode::Shadow).await;
    let networking = json!({ "address": "10.0.0.1", "inbound": [{ "port": 80, "tags": { "kuma.io/service": "a" } }] });
    let dataplane = json!({ "type": "Dataplane", "mesh": "default", "name": "a-1", "networking": networking });
    cp.put("/meshes/default/dataplanes/a-1", &dataplane).await;
    let page = cp.get("/meshes/default/_reachability").await.json();
    assert_eq!((&page["items"][0]["mode"], &page["items"][0]["source"]), (&json!("shadow"), &json!("setting")));
}

#[tokio::test]
async fn check_shows_losses_of_a_change_and_stores_nothing() {
    let cp = mesh().await;
    let check = async |query: &str, body: &Value| {
        cp.send(Method::POST, &format!("/meshes/default/_permissions/check{query}"), &[], body.to_string()).await
    };
    let nothing = check("", &json!({})).await.json();
    assert_eq!((&nothing["enforced"], &nothing["lost"], &nothing["observed"]), (&json!(false), &json!([]), &json!([])));
    // As if mutual TLS were strict: without any permission, nobody may call.
    let lost = check("?enforced=true", &json!({})).await.json()["lost"].clone();
    assert_eq!(lost, json!([{ "clients": all(), "destinations": all(), "reason": { "kind": "notAllowed" } }]));
    let from = json!([{ "targetRef": { "kind": "Mesh" }, "default": { "action": "Allow" } }]);
    let spec = json!({ "targetRef": { "kind": "Mesh" }, "from": from });
    let allowed = json!({ "type": "MeshTrafficPermission", "mesh": "default", "name": "all", "spec": spec });
    let found = check("?enforced=true", &json!({ "resources": [allowed] })).await.json();
    assert_eq!((&found["enforced"], &found["lost"]), (&json!(true), &json!([])));
    let from = json!([{ "targetRef": { "kind": "MeshService", "name": "web" }, "default": { "action": "Deny" } }]);
    let spec = json!({ "targetRef": { "kind": "MeshSubset", "tags": { "kuma.io/service": "backend" } }, "from": from });
    let denied = json!({ "type": "MeshTrafficPermission", "mesh": "default", "name": "a-deny", "spec": spec });
    let found = check("?enforced=true", &json!({ "resources": [allowed, denied] })).await.json();
    assert_eq!(found["lost"].as_array().unwrap().len(), 1, "{found:#}");
    assert_eq!(found["lost"][0]["clients"], json!({ "kind": "only", "names": ["web"] }));
    assert_eq!(found["lost"][0]["reason"]["kind"], "denied");
    assert_eq!(cp.get("/meshes/default/meshtrafficpermissions/a-deny").await.status, StatusCode::NOT_FOUND);
    let wrong = json!({ "resources": [{ "type": "MeshTrafficPermission", "mesh": "default", "name": "x", "spec": { "from": 7 } }] });
    assert_eq!(check("", &wrong).await.status, StatusCode::BAD_REQUEST);
    assert_eq!(check("", &json!({ "resource": [] })).await.status, StatusCode::BAD_REQUEST);
}
