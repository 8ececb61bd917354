//! The way from `kuma.io/service` to MeshService, as clients see it.

use super::*;

/// `web-1` calls `api`, by its tag and by a MeshService of a user.
async fn world() -> World {
    let world = World::new("Everywhere").await;
    let outbound = json!([{ "port": 1, "tags": { "kuma.io/service": "api" } }]);
    let inbound = json!([{ "port": 8080, "tags": { "kuma.io/service": "web" } }]);
    world.dataplane("web-1", json!({ "inbound": inbound, "outbound": outbound })).await;
    let inbound = json!([{ "port": 8080, "tags": { "kuma.io/service": "api" } }]);
    world.dataplane("api-1", json!({ "inbound": inbound })).await;
    world.service("api").await;
    world.timeout("old", json!({ "to": [to(&json!({ "kind": "MeshService", "name": "api" }), 5)] })).await;
    world.timeout("all", json!({ "to": [to(&json!({ "kind": "Mesh" }), 9)] })).await;
    world
}

async fn convert(world: &World, call: &Value) -> (u16, Value) {
    world.ask(Method::POST, "/meshes/default/_migration/convert", call.to_string()).await
}

#[tokio::test]
async fn reports_migration_progress_of_mesh_and_proxies() {
    let world = world().await;
    let standing = world.get("/meshes/default/_migration").await;
    let services: Vec<_> = standing["services"].as_array().unwrap().iter().map(|one| one["service"].clone()).collect();
    assert_eq!((&standing["mode"], services), (&json!("Everywhere"), vec![json!("api"), json!("web")]));
    assert_eq!(standing["services"][0]["objects"][0]["kri"], "kri_msvc_default_east__api_");
    assert_eq!(standing["policies"].as_array().unwrap().len(), 1, "{standing}");
    assert_eq!(standing["policies"][0]["findings"][0]["outcome"], "Converted");

    let page = world.get("/meshes/default/_migration/consumers?size=1&offset=1").await;
    assert_eq!((&page["total"], &page["next"]), (&json!(2), &Value::Null));
    let web = &page["items"][0];
    assert_eq!((&web["name"], &web["old"], &web["connected"]), (&json!("web-1"), &json!(["api"]), &json!(false)));
    assert_eq!(web["policies"], json!(["MeshTimeout old"]));
    assert_eq!(world.refused("/meshes/none/_migration").await.0, 404);
    assert_eq!(world.refused("/meshes/none/_migration/consumers").await.0, 404);
}

#[tokio::test]
async fn stored_policies_are_converted_but_not_changed() {
    let world = world().await;
    let (status, answer) = convert(&world, &json!({})).await;
    let [item] = answer["items"].as_array().unwrap().as_slice() else { panic!("{status} {answer}") };
    assert_eq!((&item["changed"], &item["document"]["name"]), (&json!(true), &json!("old")));
    let sections: Vec<_> =
        (1..3).map(|n| item["document"]["spec"]["to"][n]["targetRef"]["sectionName"].clone()).collect();
    assert_eq!(sections, ["http", "81"]);
    let stored = world.get("/meshes/default/meshtimeouts/old").await;
    assert_eq!(stored["spec"]["to"].as_array().unwrap().len(), 1);

    world.write("/meshes/default/meshtimeouts/old", &item["document"]).await;
    let (_, again) = convert(&world, &json!({})).await;
    assert_eq!(again["items"][0]["changed"], false);
    let (_, replaced) = convert(&world, &json!({ "replace": true })).await;
    assert_eq!(replaced["items"][0]["document"]["spec"]["to"].as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn documents_are_converted_in_order_and_all_problems_are_reported() {
    let world = world().await;
    let timeout = |name: &str, target: Value| json!({ "type": "MeshTimeout", "mesh": "default", "name": name, "spec": { "to": [to(&target, 5)] } });
    let mesh = json!({ "type": "Mesh", "name": "default" });
    let new = timeout("new", json!({ "kind": "MeshService", "name": "api" }));
    let (_, answer) = convert(&world, &json!({ "resources": [mesh, new] })).await;
    assert_eq!((&answer["items"][0]["document"], &answer["items"][0]["changed"]), (&mesh, &json!(false)));
    assert_eq!(answer["items"][1]["changed"], true);

    let bad = timeout("bad", json!({ "kind": "MeshService" }));
    let worse = timeout("worse", json!({ "kind": "MeshGateway", "name": "x" }));
    let (status, refusal) = convert(&world, &json!({ "resources": [new, bad, worse] })).await;
    let fields = refusal["invalid_parameters"].as_array().unwrap().iter().map(|one| one["field"].as_str().unwrap());
    let fields: Vec<_> = fields.map(|field| &field[.."resources[1]".len()]).collect();
    assert_eq!((status, fields), (400, vec!["resources[1]", "resources[2]"]), "{refusal}");
    assert_eq!(convert(&world, &json!({ "resource": [] })).await.0, 400);
}
