//! Permissions by tags in a mesh with a MeshIdentity, as clients see them.

use super::*;

const CONVERT: &str = "/meshes/default/_migration/identity/convert";

/// `web-1` may call `api-1`, by its tag. A MeshIdentity without a provider gives SPIFFE IDs by workload.
async fn world() -> World {
    let world = World::new("Exclusive").await;
    for name in ["web", "api"] {
        let inbound = json!([{ "port": 8080, "tags": { "kuma.io/service": name } }]);
        let document = json!({
            "type": "Dataplane", "mesh": "default", "name": format!("{name}-1"), "labels": { "kuma.io/workload": name },
            "networking": { "address": "10.0.0.1", "inbound": inbound },
        });
        world.write(&format!("/meshes/default/dataplanes/{name}-1"), &document).await;
    }
    world.write("/meshes/default/meshidentities/all", &identity(&json!({}))).await;
    world.write("/meshes/default/meshtrafficpermissions/a", &permission("a", "web")).await;
    world.write("/meshes/default/meshtrafficpermissions/b", &permission("b", "api")).await;
    world
}

fn identity(provider: &Value) -> Value {
    let mut spec = json!({ "selector": { "dataplane": {} }, "spiffeID": { "trustDomain": "td" } });
    if !provider.as_object().unwrap().is_empty() {
        spec["provider"] = provider.clone();
    }
    json!({ "type": "MeshIdentity", "mesh": "default", "name": "all", "spec": spec })
}

fn permission(name: &str, caller: &str) -> Value {
    let target = json!({ "kind": "MeshService", "name": caller });
    let from = json!([{ "targetRef": target, "default": { "action": "Allow" } }]);
    json!({ "type": "MeshTrafficPermission", "mesh": "default", "name": name, "spec": { "from": from } })
}

#[tokio::test]
async fn permissions_are_converted_and_stored_only_when_asked() {
    let world = world().await;
    let (status, preview) = world.ask(Method::POST, CONVERT, json!({}).to_string()).await;
    assert_eq!(
        (status, &preview["applied"], &preview["proof"]["changed"]),
        (200, &json!(false), &json!([])),
        "{preview}"
    );
    let allow = &preview["items"][0]["document"]["spec"]["rules"][0]["default"]["allow"];
    assert_eq!(allow[0]["spiffeID"], json!({ "type": "Exact", "value": "spiffe://default/web" }), "{preview}");
    assert_eq!(allow[1]["spiffeID"]["value"], "spiffe://td/workload/web");
    let stored = world.get("/meshes/default/meshtrafficpermissions/a").await;
    assert!(stored["spec"]["from"].is_array(), "{stored}");

    let (_, applied) = world.ask(Method::POST, CONVERT, json!({ "apply": true }).to_string()).await;
    assert_eq!((&applied["applied"], applied["items"].as_array().unwrap().len()), (&json!(true), 2), "{applied}");
    for name in ["a", "b"] {
        let stored = world.get(&format!("/meshes/default/meshtrafficpermissions/{name}")).await;
        assert_eq!((&stored["spec"]["from"], stored["spec"]["rules"].is_array()), (&Value::Null, true), "{stored}");
    }
    let (_, again) = world.ask(Method::POST, CONVERT, json!({ "apply": true }).to_string()).await;
    assert_eq!((&again["items"], &again["applied"]), (&json!([]), &json!(false)));
}

#[tokio::test]
async fn documents_are_converted_only_with_all_policies_of_their_inbounds() {
    let world = world().await;
    let mesh = json!({ "type": "Mesh", "name": "default" });
    let ask =
        async |resources: Value| world.ask(Method::POST, CONVERT, json!({ "resources": resources }).to_string()).await;
    let (_, one) = ask(json!([permission("a", "web")])).await;
    assert_eq!(one["items"][0]["changed"], false);
    assert_eq!(one["items"][0]["findings"][0]["outcome"], "Refused");
    let (_, both) = ask(json!([mesh, permission("b", "web"), permission("a", "web")])).await;
    let changed: Vec<_> = both["items"].as_array().unwrap().iter().map(|item| item["changed"].clone()).collect();
    assert_eq!(changed, [false, true, true], "{both}");
    let mut bad = permission("c", "web");
    bad["spec"]["from"][0]["default"]["action"] = json!("Maybe");
    let (status, refusal) = ask(json!([mesh, bad])).await;
    assert_eq!(status, 400, "{refusal}");
    assert_eq!(world.ask(Method::POST, "/meshes/none/_migration/identity/convert", "{}".to_owned()).await.0, 404);
}

#[tokio::test]
async fn provider_of_a_mesh_identity_warns_about_permissions_by_tags() {
    let world = world().await;
    let provider = json!({ "type": "Spire", "spire": { "agent": { "timeout": "1s" } } });
    let (_, answer) =
        world.ask(Method::PUT, "/meshes/default/meshidentities/all", identity(&provider).to_string()).await;
    let warnings = answer["warnings"].to_string();
    assert!(warnings.contains("match callers by tags") && warnings.contains("a, b"), "{answer}");
    let status = world.get("/meshes/default/meshtrafficpermissions/a/_status").await;
    assert_eq!((&status["state"], &status["reasons"][0]["reason"]), (&json!("Partly"), &json!("CallersWithoutTags")));
}
