//! Rules of a proxy.

use serde_json::json;

use super::{WEB, World, for_callers, texts, to};

#[tokio::test]
async fn rules_are_grouped_by_kind_and_have_origins() {
    let world = World::new("Everywhere").await;
    world.web().await;
    world.service("api").await;
    let trace = json!({ "default": { "backends": [], "sampling": { "overall": 80 } } });
    world.put("MeshTrace", "meshtraces", "trace", trace).await;
    world.timeout("all", json!({ "to": [to(&json!({ "kind": "Mesh" }), 1)] })).await;
    world.timeout("callers", json!({ "rules": for_callers(2) })).await;
    let api = json!({ "kind": "MeshService", "name": "api" });
    world.timeout("b-api", json!({ "to": [to(&json!({ "kind": "Mesh" }), 3), to(&api, 4)] })).await;
    let tried = json!({ "kuma.io/effect": "shadow" });
    let spec = json!({ "to": [to(&json!({ "kind": "Mesh" }), 5)] });
    world.labelled("MeshTimeout", "meshtimeouts", "tried", tried, spec).await;

    let found = world.get(&format!("{WEB}/_rules")).await;
    assert_eq!(found["resource"]["type"], "Dataplane");
    assert_eq!(found["resource"]["labels"]["kuma.io/zone"], "east");
    assert_eq!(texts(&found["rules"], "/type"), ["MeshTrace", "MeshTimeout"]);
    let [trace, timeout] = found["rules"].as_array().unwrap().as_slice() else { panic!("{found}") };
    assert_eq!(trace["proxyRule"]["conf"]["sampling"]["overall"], 80);
    assert_eq!(texts(&trace["proxyRule"]["origin"], "/name"), ["trace"]);
    assert_eq!(timeout.get("proxyRule"), None);
    // The first name in the alphabet wins.
    let by_tags = &timeout["toRules"];
    assert_eq!(by_tags[0]["matchers"], json!([{ "key": "kuma.io/service", "value": "api", "not": false }]));
    assert_eq!(by_tags[0]["conf"]["idleTimeout"], "1s");
    assert_eq!(texts(&by_tags[0]["origin"], "/name"), ["b-api", "all"]);
    assert_eq!(by_tags[1]["matchers"], json!([]));
    let to_resources = &timeout["toResourceRules"];
    assert_eq!(texts(to_resources, "/resourceMeta/name"), ["api", "default"]);
    assert_eq!(
        (&to_resources[0]["conf"][0]["idleTimeout"], &to_resources[0]["resourceSectionName"]),
        (&json!("4s"), &json!(""))
    );
    let last = to_resources[0]["origin"].as_array().unwrap().last().unwrap();
    assert_eq!((&last["resourceMeta"]["name"], &last["ruleIndex"]), (&json!("b-api"), &json!(1)));
    // In the order of ports, with the name of those that have one.
    let [web, metrics] = timeout["inboundRules"].as_array().unwrap().as_slice() else { panic!("{timeout}") };
    assert_eq!((web["inbound"].get("name"), &web["inbound"]["port"]), (None, &json!(8080)));
    assert_eq!((&metrics["inbound"]["name"], &metrics["inbound"]["port"]), (&json!("metrics"), &json!(9090)));
    assert_eq!(web["rules"][0]["conf"], json!([{ "idleTimeout": "2s" }]));
    assert_eq!(timeout["warnings"], json!([]));
}

#[tokio::test]
async fn hashes_of_routes_are_explained() {
    let world = World::new("Disabled").await;
    world.web().await;
    let matches = json!([{ "path": { "type": "PathPrefix", "value": "/v1" } }]);
    let refs = json!([{ "kind": "MeshService", "name": "api_shop_svc_80" }]);
    let rules = json!([{ "matches": matches, "default": { "backendRefs": refs } }]);
    let target = json!({ "kind": "MeshService", "name": "api_shop_svc_80" });
    let spec = json!({ "to": [{ "targetRef": target, "rules": rules }] });
    world.put("MeshHTTPRoute", "meshhttproutes", "v1", spec).await;
    let on_route = json!({
        "targetRef": { "kind": "MeshHTTPRoute", "name": "v1" }, "to": [
            { "targetRef": { "kind": "Mesh" }, "default": { "http": { "requestTimeout": "1s" } } },
        ],
    });
    world.timeout("on-route", on_route).await;
    let found = world.get(&format!("{WEB}/_rules")).await;
    assert_eq!(found["httpMatches"][0]["match"], matches);
    let rules = found["rules"].as_array().unwrap().iter().find(|rules| rules["type"] == "MeshTimeout").unwrap();
    let tags = rules["toRules"][0]["matchers"].as_array().unwrap();
    assert!(tags.iter().any(|matcher| matcher["value"] == found["httpMatches"][0]["hash"]), "{rules}");
}

#[tokio::test]
async fn exclusive_mode_has_no_rules_by_tags() {
    let world = World::new("Exclusive").await;
    world.web().await;
    world.timeout("all", json!({ "to": [to(&json!({ "kind": "Mesh" }), 1)] })).await;
    let found = world.get(&format!("{WEB}/_rules")).await;
    assert_eq!(found["rules"][0]["toRules"], json!([]));
    assert_eq!(found["rules"][0]["toResourceRules"][0]["resourceMeta"]["type"], "Mesh");
}

#[tokio::test]
async fn mesh_gateway_has_the_rules_of_a_proxy_that_serves_it() {
    let world = World::new("Disabled").await;
    let listeners = json!([
        { "port": 8080, "protocol": "HTTP", "hostname": "a.example" },
        { "port": 8080, "protocol": "HTTP", "hostname": "b.example" },
    ]);
    let gateway = json!({
        "type": "MeshGateway", "mesh": "default", "name": "edge", "conf": { "listeners": listeners },
        "selectors": [{ "match": { "kuma.io/service": "edge" } }],
    });
    world.write("/meshes/default/meshgateways/edge", &gateway).await;
    let spec =
        json!({ "targetRef": { "kind": "MeshGateway", "name": "edge" }, "to": [to(&json!({ "kind": "Mesh" }), 1)] });
    world.timeout("on-gateway", spec).await;
    let target = json!({ "kind": "MeshGateway", "name": "other" });
    world.timeout("on-other", json!({ "targetRef": target, "to": [to(&json!({ "kind": "Mesh" }), 2)] })).await;
    world.timeout("callers", json!({ "rules": for_callers(3) })).await;
    let found = world.get("/meshes/default/meshgateways/edge/_rules").await;
    assert_eq!(found["resource"]["type"], "MeshGateway");
    assert_eq!(texts(&found["rules"][0]["toRules"][0]["origin"], "/name"), ["on-gateway"]);
    // Both hostnames are at one port.
    let [at_port] = found["rules"][0]["inboundRules"].as_array().unwrap().as_slice() else { panic!("{found}") };
    assert_eq!(at_port["inbound"], json!({ "port": 8080, "tags": { "kuma.io/service": "edge" } }));
    assert_eq!(at_port["rules"].as_array().unwrap().len(), 1);
    let missing = world.refused("/meshes/default/meshgateways/nobody/_rules").await;
    assert_eq!((missing.0, missing.2.as_str()), (404, "Not found"));
}

#[tokio::test]
async fn rules_for_callers_are_listed_by_inbound() {
    let world = World::new("Disabled").await;
    world.web().await;
    let allow = json!([{ "targetRef": { "kind": "Mesh" }, "default": { "action": "Allow" } }]);
    world.put("MeshTrafficPermission", "meshtrafficpermissions", "allow", json!({ "from": allow })).await;
    let metrics = json!({ "kind": "Dataplane", "sectionName": "metrics" });
    world.timeout("metrics", json!({ "targetRef": metrics, "rules": for_callers(2) })).await;
    let found = world.get(&format!("{WEB}/_matches")).await;
    let kinds = |inbound: usize| texts(&found["inbounds"][inbound]["policies"], "/kind");
    assert_eq!((kinds(0), kinds(1)), (vec!["MeshTimeout", "MeshTrafficPermission"], vec!["MeshTrafficPermission"]));
    let origin = &found["inbounds"][0]["policies"][0]["origins"][0];
    assert_eq!((&origin["name"], &origin["targetRef"]["sectionName"]), (&json!("metrics"), &json!("metrics")));
}

#[tokio::test]
async fn too_many_rules_are_replaced_by_a_warning() {
    let world = World::new("Disabled").await;
    let from = |n: u32| {
        let tags = json!({ format!("tag-{n}"): "x" });
        json!({ "targetRef": { "kind": "MeshSubset", "tags": tags }, "default": { "action": "Allow" } })
    };
    let spec = json!({ "from": (0..20).map(from).collect::<Vec<_>>() });
    world.put("MeshTrafficPermission", "meshtrafficpermissions", "many", spec).await;
    // With a proxy to follow it, it would have been refused.
    world.web().await;
    let found = world.get(&format!("{WEB}/_rules")).await;
    let of_kind = &found["rules"][0];
    assert_eq!((&of_kind["type"], &of_kind["fromRules"]), (&json!("MeshTrafficPermission"), &json!([])));
    let warning = of_kind["warnings"][0].as_str().unwrap();
    assert!(warning.starts_with("couldn't create From rules: ") && warning.contains("many"), "{warning}");
}
