//! Policies that target `<name>_<namespace>_svc_<port>`, and how far they apply to the MeshService that replaces it.

use serde_json::{Value, json};

use super::{WEB, World, to};

const OLD: &str = "demo-app_kuma-demo_svc_5000";

/// `demo-app` of Kubernetes, with its ports 5000 and 5001.
async fn world(mode: &str) -> World {
    let world = World::new(mode).await;
    world.web().await;
    let labels = json!({ "kuma.io/display-name": "demo-app", "k8s.kuma.io/namespace": "kuma-demo" });
    let ports = json!([{ "port": 5000, "appProtocol": "http" }, { "port": 5001, "appProtocol": "http" }]);
    let spec = json!({ "selector": { "dataplaneTags": { "app": "demo-app" } }, "ports": ports });
    world.labelled("MeshService", "meshservices", "demo-app-x", labels, spec).await;
    world
}

fn old() -> Value {
    json!({ "kind": "MeshService", "name": OLD })
}

fn by_labels() -> Value {
    let labels = json!({ "kuma.io/display-name": "demo-app", "k8s.kuma.io/namespace": "kuma-demo" });
    json!({ "kind": "MeshService", "labels": labels, "sectionName": "5000" })
}

impl World {
    /// `toResourceRules`: each with its port, its conf, and its origins with their legacy names.
    async fn to_resources(&self, kind: &str) -> Vec<Value> {
        let found = self.get(&format!("{WEB}/_rules")).await;
        let of_kind = found["rules"].as_array().unwrap().iter().find(|of_kind| of_kind["type"] == kind);
        let rules = of_kind.map_or_else(Vec::new, |of_kind| of_kind["toResourceRules"].as_array().unwrap().clone());
        let origin = |origin: &Value| json!([origin["resourceMeta"]["name"], origin["viaOldName"]]);
        let shown = rules.iter().map(|rule| {
            let origins: Vec<Value> = rule["origin"].as_array().unwrap().iter().map(origin).collect();
            json!([rule["resourceMeta"]["name"], rule["resourceSectionName"], rule["conf"][0], origins])
        });
        shown.collect()
    }

    async fn by_tags(&self, kind: &str) -> Value {
        let found = self.get(&format!("{WEB}/_rules")).await;
        let of_kind = found["rules"].as_array().unwrap().iter().find(|of_kind| of_kind["type"] == kind);
        of_kind.map_or(json!([]), |of_kind| of_kind["toRules"].clone())
    }
}

#[tokio::test]
async fn timeout_on_a_legacy_name_applies_to_the_port_and_shows_the_name() {
    let world = world("Everywhere").await;
    world.timeout("slow", json!({ "to": [to(&old(), 1)] })).await;
    let port = json!(["demo-app-x", "5000", { "idleTimeout": "1s" }, [["slow", OLD]]]);
    assert_eq!(world.to_resources("MeshTimeout").await, [port]);
    assert_eq!(world.by_tags("MeshTimeout").await[0]["matchers"][0]["value"], OLD);
    let status = world.get("/meshes/default/meshtimeouts/slow/_status").await;
    assert_eq!(status["state"], "InForce", "{status}");
}

#[tokio::test]
async fn target_with_a_section_matches_only_the_mesh_service() {
    let world = world("Everywhere").await;
    world.timeout("slow", json!({ "to": [to(&by_labels(), 1)] })).await;
    let port = json!(["demo-app-x", "5000", { "idleTimeout": "1s" }, [["slow", null]]]);
    assert_eq!(world.to_resources("MeshTimeout").await, [port]);
    assert_eq!(world.by_tags("MeshTimeout").await, json!([]));
    let mut both = old();
    both["sectionName"] = json!("5000");
    world.timeout("slow", json!({ "to": [to(&both, 1)] })).await;
    assert_eq!(world.to_resources("MeshTimeout").await, [] as [Value; 0]);
}

#[tokio::test]
async fn target_by_labels_overrides_the_legacy_name_and_both_are_origins() {
    let world = world("Everywhere").await;
    world.timeout("a-slow", json!({ "to": [to(&old(), 1)] })).await;
    world.timeout("fast", json!({ "to": [to(&by_labels(), 2)] })).await;
    let port = json!(["demo-app-x", "5000", { "idleTimeout": "2s" }, [["a-slow", OLD], ["fast", null]]]);
    assert_eq!(world.to_resources("MeshTimeout").await, [port]);
    let status = world.get("/meshes/default/meshtimeouts/a-slow/_status").await;
    assert_eq!(status["reasons"][0]["reason"], "Overridden", "{status}");
}

#[tokio::test]
async fn routes_on_a_legacy_name_do_not_apply_to_the_mesh_service() {
    let matches = json!([{ "path": { "type": "Exact", "value": "/" } }]);
    let kinds = [
        ("MeshHTTPRoute", "meshhttproutes", json!([{ "matches": matches, "default": { "filters": [] } }])),
        ("MeshTCPRoute", "meshtcproutes", json!([{ "default": { "backendRefs": [old()] } }])),
    ];
    for (kind, path, rules) in kinds {
        let world = world("Everywhere").await;
        let route = |target: &Value| json!({ "to": [{ "targetRef": target, "rules": rules }] });
        world.put(kind, path, "route", route(&old())).await;
        assert_eq!(world.to_resources(kind).await, [] as [Value; 0], "{kind}");
        assert_eq!(world.by_tags(kind).await[0]["matchers"][0]["value"], OLD);
        world.put(kind, path, "route", route(&by_labels())).await;
        assert_eq!(world.to_resources(kind).await.len(), 1, "{kind}");
        assert_eq!(world.by_tags(kind).await, json!([]), "{kind}");
    }
}

#[tokio::test]
async fn plain_name_in_a_route_is_a_mesh_service_only_in_exclusive_mode() {
    let rules = json!([{ "matches": [{ "path": { "type": "Exact", "value": "/" } }], "default": { "filters": [] } }]);
    for (mode, by_name) in [("Everywhere", 0), ("ReachableBackends", 0), ("Exclusive", 1)] {
        let world = world(mode).await;
        world.service("api").await;
        let api = json!({ "kind": "MeshService", "name": "api" });
        let route = json!({ "to": [{ "targetRef": api, "rules": rules }] });
        world.put("MeshHTTPRoute", "meshhttproutes", "route", route).await;
        assert_eq!(world.to_resources("MeshHTTPRoute").await.len(), by_name, "{mode}");
        // For other kinds the name matches both.
        world.timeout("slow", json!({ "to": [to(&api, 1)] })).await;
        assert_eq!(world.to_resources("MeshTimeout").await.len(), 1, "{mode}");
    }
}

#[tokio::test]
async fn only_local_zone_of_a_load_balancing_strategy_applies_to_the_mesh_service() {
    let world = world("Everywhere").await;
    let (kind, path) = ("MeshLoadBalancingStrategy", "meshloadbalancingstrategies");
    let local = json!({ "affinityTags": [{ "key": "k8s.io/node" }] });
    let conf = json!({
        "localityAwareness": { "localZone": local, "crossZone": { "failover": [{ "to": { "type": "None" } }] } },
        "loadBalancer": { "type": "Random" },
    });
    let strategy = |conf: &Value| json!({ "to": [{ "targetRef": old(), "default": conf }] });
    world.put(kind, path, "near", strategy(&conf)).await;
    let port = json!(["demo-app-x", "5000", { "localityAwareness": { "localZone": local } }, [["near", OLD]]]);
    assert_eq!(world.to_resources(kind).await, [port]);
    world.put(kind, path, "near", strategy(&json!({ "loadBalancer": { "type": "Random" } }))).await;
    assert_eq!(world.to_resources(kind).await, [] as [Value; 0]);
}

#[tokio::test]
async fn policies_of_one_outbound_show_the_legacy_name() {
    let world = world("Exclusive").await;
    world.timeout("slow", json!({ "to": [to(&old(), 1), to(&by_labels(), 2)] })).await;
    let destination = "kri_msvc_default_east_kuma-demo_demo-app_5000";
    let found = world.get(&format!("{WEB}/_outbounds/{destination}/_policies")).await;
    let origin = json!({ "kri": "kri_mt_default_east__slow_", "viaOldName": OLD });
    assert_eq!(found["policies"][0]["origins"], json!([origin]), "{found}");
    world.timeout("slow", json!({ "to": [to(&by_labels(), 2)] })).await;
    let found = world.get(&format!("{WEB}/_outbounds/{destination}/_policies")).await;
    assert_eq!(found["policies"][0]["origins"], json!([{ "kri": "kri_mt_default_east__slow_" }]));
}
