//! How policies stand, one by one and as a list.

use axum::http::Method;
use serde_json::{Value, json};

use super::{World, texts, to};

/// Three timeouts, one for each state, and a policy that selects no proxy.
async fn world() -> World {
    let world = World::new("Disabled").await;
    world.web().await;
    let everything = json!({ "kind": "Mesh" });
    let nobody = json!({ "kind": "MeshService", "name": "nobody" });
    world.timeout("good", json!({ "to": [to(&everything, 1)] })).await;
    world.timeout("half", json!({ "from": [to(&everything, 1)], "to": [to(&nobody, 1)] })).await;
    world.timeout("weak", json!({ "to": [to(&everything, 2)] })).await;
    let gone = json!({ "kind": "Dataplane", "name": "gone" });
    let reject = json!({ "targetRef": gone, "default": { "passthroughMode": "None" } });
    world.put("MeshPassthrough", "meshpassthroughs", "closed", reject).await;
    world
}

fn stand(item: &Value) -> Value {
    let reasons = item["reasons"].as_array().unwrap().iter().map(|reason| reason["reason"].clone());
    json!([item["type"], item["name"], item["state"], item["proxies"], reasons.collect::<Vec<_>>()])
}

#[tokio::test]
async fn policy_status_has_proxies_and_reasons() {
    let world = world().await;
    let weak = world.get("/meshes/default/meshtimeouts/weak/_status").await;
    let reason = json!({
        "reason": "Overridden",
        "message": "policies of higher precedence override it",
        "policies": ["kri_mt_default_east__good_"],
    });
    assert_eq!(
        weak,
        json!({
            "type": "MeshTimeout", "mesh": "default", "name": "weak", "kri": "kri_mt_default_east__weak_",
            "state": "NotInForce", "proxies": 0, "proxiesTotal": 1, "reasons": [reason],
        })
    );
    let half = world.get("/meshes/default/meshtimeouts/half/_status").await;
    assert_eq!((&half["state"], &half["proxies"]), (&json!("Partly"), &json!(1)));
    assert_eq!(half["reasons"][0]["path"], "spec.to[0]");
    let missing = world.refused("/meshes/default/meshtimeouts/gone/_status").await;
    assert_eq!(missing, (404, "Could not retrieve policy".to_owned(), "Not found".to_owned()));
}

#[tokio::test]
async fn policy_statuses_are_paged_and_filtered_by_state() {
    let world = world().await;
    let path = "/meshes/default/_policies";
    let all = world.get(path).await;
    let expected = [
        json!(["MeshPassthrough", "closed", "NotInForce", 0, ["NoMatch"]]),
        json!(["MeshTimeout", "good", "InForce", 1, []]),
        json!(["MeshTimeout", "half", "Partly", 1, ["Unresolved"]]),
        json!(["MeshTimeout", "weak", "NotInForce", 0, ["Overridden"]]),
    ];
    assert_eq!(all["items"].as_array().unwrap().iter().map(stand).collect::<Vec<_>>(), expected);
    assert_eq!((&all["total"], all.get("next")), (&json!(4), None));
    let page = world.get(&format!("{path}?size=1&name=a&offset=1")).await;
    assert_eq!((texts(&page["items"], "/name"), &page["total"]), (vec!["weak"], &json!(2)));
    let page = world.get(&format!("{path}?size=3")).await;
    assert_eq!(page["next"], format!("http://localhost:5681{path}?offset=3&size=3"));
    let out = world.get(&format!("{path}?state=NotInForce&size=1")).await;
    assert_eq!((texts(&out["items"], "/name"), &out["total"]), (vec!["closed"], &json!(2)));
    assert_eq!(out["next"], format!("http://localhost:5681{path}?offset=1&size=1&state=NotInForce"));
    assert_eq!(world.refused(&format!("{path}?state=Dead")).await.0, 400);
    assert_eq!(world.refused("/meshes/gone/_policies").await.0, 404);
}

#[tokio::test]
async fn permission_without_mutual_tls_is_not_in_force_and_warns() {
    let world = World::new("Disabled").await;
    world.web().await;
    let allow = json!([{ "targetRef": { "kind": "Mesh" }, "default": { "action": "Allow" } }]);
    let document =
        json!({ "type": "MeshTrafficPermission", "mesh": "default", "name": "all", "spec": { "from": allow } });
    let path = "/meshes/default/meshtrafficpermissions/all";
    let (_, answer) = world.ask(Method::PUT, path, document.to_string()).await;
    let warnings = answer["warnings"].to_string();
    assert!(warnings.contains("has no mutual TLS: every call is allowed"), "{answer}");
    let status = world.get(&format!("{path}/_status")).await;
    assert_eq!(stand(&status), json!(["MeshTrafficPermission", "all", "NotInForce", 0, ["NoMutualTls"]]));
    let mtls = json!({ "enabledBackend": "ca-1", "backends": [{ "name": "ca-1", "type": "builtin" }] });
    let mesh = json!({ "type": "Mesh", "name": "default", "mtls": mtls });
    world.ask(Method::PUT, "/meshes/default", mesh.to_string()).await;
    let (_, answer) = world.ask(Method::PUT, path, document.to_string()).await;
    assert!(!answer.to_string().contains("mutual TLS"), "{answer}");
    assert_eq!(world.get(&format!("{path}/_status")).await["state"], "InForce");
}
