//! Legacy routes.

use serde_json::json;

use super::{WEB, World, for_callers, texts, to};

#[tokio::test]
async fn legacy_routes_list_proxies_of_a_policy_and_policies_of_a_proxy() {
    let world = World::new("Disabled").await;
    world.web().await;
    assert_eq!(
        world.get(&format!("{WEB}/policies")).await,
        json!({ "kind": "SidecarDataplane", "total": 0, "items": [] })
    );
    world.timeout("all", json!({ "rules": for_callers(1) })).await;
    let other = json!({ "kind": "Dataplane", "name": "other" });
    world.timeout("other", json!({ "targetRef": other, "rules": for_callers(1) })).await;
    let found = world.get("/meshes/default/meshtimeouts/all/dataplanes").await;
    let attachment = json!({ "type": "dataplane", "name": "", "service": "" });
    let entry = json!({
        "kind": "SidecarDataplane", "dataplane": { "mesh": "default", "name": "web-1" }, "attachments": [attachment],
    });
    assert_eq!(found, json!({ "total": 1, "items": [entry] }));
    assert_eq!(world.get("/meshes/default/meshtimeouts/other/dataplanes").await["total"], 0);
    let of_proxy = world.get(&format!("{WEB}/policies")).await;
    assert_eq!(of_proxy["items"][0]["type"], "dataplane");
    let timeouts = &of_proxy["items"][0]["matchedPolicies"]["MeshTimeout"];
    assert_eq!((texts(timeouts, "/name"), timeouts[0]["spec"]["rules"].is_array()), (vec!["all"], true));
}

#[tokio::test]
async fn legacy_routes_show_gateways_separately() {
    let world = World::new("Disabled").await;
    let gateway = json!({
        "type": "MeshGateway", "mesh": "default", "name": "edge",
        "selectors": [{ "match": { "kuma.io/service": "edge" } }],
        "conf": { "listeners": [{ "port": 8080, "protocol": "HTTP" }] },
    });
    world.write("/meshes/default/meshgateways/edge", &gateway).await;
    let own = json!({ "type": "BUILTIN", "tags": { "kuma.io/service": "edge" } });
    world.dataplane("web-1", json!({ "gateway": own })).await;
    world.timeout("all", json!({ "to": [to(&json!({ "kind": "Mesh" }), 1)] })).await;
    let found = world.get("/meshes/default/meshtimeouts/all/dataplanes").await;
    assert_eq!(found["items"][0]["kind"], "MeshGatewayDataplane");
    assert_eq!(found["items"][0]["gateway"], json!({ "mesh": "default", "name": "edge" }));
    let of_proxy = world.get(&format!("{WEB}/policies")).await;
    assert_eq!(of_proxy["kind"], "MeshGatewayDataplane");
    assert_eq!(of_proxy["listeners"], json!([]));
    assert_eq!(of_proxy["policies"]["MeshTimeout"]["name"], "all", "kumactl reads one policy of each kind");
    let found = world.get("/meshes/default/meshgateways/edge/dataplanes").await;
    assert_eq!(found, json!({ "total": 1, "items": [{ "dataplane": { "mesh": "default", "name": "web-1" } }] }));
}

#[tokio::test]
async fn legacy_rules_have_addresses() {
    let world = World::new("Disabled").await;
    let inbound = json!([{ "port": 8080, "tags": { "kuma.io/service": "web" } }]);
    let outbound = json!([
        { "port": 1000, "tags": { "kuma.io/service": "api" } },
        { "port": 1001, "tags": { "kuma.io/service": "other" } },
    ]);
    world.dataplane("web-1", json!({ "inbound": inbound, "outbound": outbound })).await;
    let from = |tag: &str| json!({ "targetRef": { "kind": "MeshSubset", "tags": { tag: "x" } }, "default": { "action": "Allow" } });
    let spec = json!({ "from": [from("a")] });
    world.put("MeshTrafficPermission", "meshtrafficpermissions", "allow", spec).await;
    world.timeout("api", json!({ "to": [to(&json!({ "kind": "MeshService", "name": "api" }), 1)] })).await;
    let trace = json!({ "default": { "backends": [] } });
    world.put("MeshTrace", "meshtraces", "trace", trace).await;
    let found = world.get(&format!("{WEB}/rules")).await;
    assert_eq!(texts(&found["items"], "/type"), ["SingleItem", "DestinationSubset", "ClientSubset"]);
    let [single, destination, client] = found["items"].as_array().unwrap().as_slice() else { panic!("{found}") };
    assert_eq!((&single["policyType"], &single["name"]), (&json!("MeshTrace"), &json!("")));
    assert_eq!((&destination["name"], &destination["service"]), (&json!("127.0.0.1:1000"), &json!("api")));
    assert_eq!(destination["origins"], json!([{ "mesh": "default", "name": "api" }]));
    assert_eq!((&client["addresses"], &client["subset"]), (&json!(["127.0.0.1:8080"]), &json!({ "a": "x" })));

    world.mode("Exclusive").await;
    let found = world.get(&format!("{WEB}/rules")).await;
    assert_eq!(texts(&found["items"], "/type"), ["SingleItem", "ClientSubset"], "outbounds with tags have no cluster");
}
