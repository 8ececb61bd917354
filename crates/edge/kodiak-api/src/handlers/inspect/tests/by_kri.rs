//! Policies of one inbound, outbound or route, by KRI.

use serde_json::json;

use super::{WEB, World, for_callers, texts, to};

#[tokio::test]
async fn routes_by_kri_need_exclusive_mode() {
    let world = World::new("Everywhere").await;
    world.web().await;
    let (inbound, outbound) = ("kri_dp_default_east__web-1_8080", "kri_msvc_default_east__api_http");
    for (path, endpoint) in [
        ("_layout".to_owned(), "_layout"),
        ("_policies".to_owned(), "_policies"),
        (format!("_inbounds/{inbound}/_policies"), "_policies"),
        (format!("_outbounds/{outbound}/_policies"), "_policies"),
        (format!("_outbounds/{outbound}/_routes"), "_policies"),
        (format!("_outbounds/{outbound}/_routes/kri_mhttpr_default___r_/_policies"), "_policies"),
    ] {
        let refused = world.refused(&format!("{WEB}/{path}")).await;
        let detail = format!("bad request: can't use {endpoint} endpoint without meshService enabled");
        assert_eq!(refused, (400, "Bad Request".to_owned(), detail), "{path}");
        let nobody = world.refused(&format!("/meshes/default/dataplanes/nobody/{path}")).await;
        assert_eq!((nobody.0, nobody.2.as_str()), (404, "Not found"), "{path}");
        let nowhere = world.refused(&format!("/meshes/nowhere/dataplanes/web-1/{path}")).await;
        assert_eq!((nowhere.0, nowhere.1.as_str()), (404, "Failed to retrieve Mesh"), "{path}");
    }
}

#[tokio::test]
async fn invalid_kri_is_rejected_with_the_error_of_kuma() {
    let world = World::new("Exclusive").await;
    world.web().await;
    let good = "kri_msvc_default_east__api_http";
    for (path, detail) in [
        ("_inbounds/x/_policies".to_owned(), r#"invalid identifier string: "x""#),
        ("_outbounds/a_b_c_d_e_f_g/_policies".to_owned(), r#"identifier must start with 'kri': "a_b_c_d_e_f_g""#),
        ("_outbounds/kri_no_c_d_e_f_g/_routes".to_owned(), r#"unknown short name of resource type: "no""#),
        (format!("_outbounds/{good}/_routes/y/_policies"), r#"invalid identifier string: "y""#),
    ] {
        let refused = world.refused(&format!("{WEB}/{path}")).await;
        assert_eq!((refused.0, refused.2), (400, format!("bad request: {detail}")), "{path}");
    }
    let unknown = world.refused(&format!("{WEB}/_inbounds/kri_dp_default_east__web-1_gone/_policies")).await;
    assert_eq!((unknown.0, unknown.2.as_str()), (500, "Internal Server Error"));
}

#[tokio::test]
async fn inbound_is_found_by_name_or_port() {
    let world = World::new("Exclusive").await;
    world.web().await;
    world.timeout("all", json!({ "rules": for_callers(1) })).await;
    let metrics = json!({ "kind": "Dataplane", "sectionName": "metrics" });
    world.timeout("metrics", json!({ "targetRef": metrics, "rules": for_callers(2) })).await;
    let at = async |section: &str| {
        let path = format!("{WEB}/_inbounds/kri_dp_default_east__web-1_{section}/_policies");
        world.get(&path).await["policies"].take()
    };
    let (all, metrics) = ("kri_mt_default_east__all_", "kri_mt_default_east__metrics_");
    let web = at("8080").await;
    assert_eq!(
        web,
        json!([{
            "kind": "MeshTimeout", "origins": [{ "kri": all }], "rules": [{ "kri": all, "conf": { "idleTimeout": "1s" } }],
        }])
    );
    assert_eq!(texts(&at("metrics").await[0]["origins"], "/kri"), [all, metrics]);
}

#[tokio::test]
async fn most_specific_target_wins() {
    let world = World::new("Exclusive").await;
    world.web().await;
    world.service("api").await;
    let matches = json!([{ "path": { "type": "PathPrefix", "value": "/v1" } }]);
    let refs = json!([{ "kind": "MeshService", "name": "api", "port": 80 }]);
    let rules = json!([{ "matches": matches, "default": { "backendRefs": refs } }]);
    let service = json!({ "kind": "MeshService", "name": "api" });
    let route = json!({ "to": [{ "targetRef": service, "rules": rules }] });
    world.put("MeshHTTPRoute", "meshhttproutes", "v1", route).await;
    world.timeout("a-mesh", json!({ "to": [to(&json!({ "kind": "Mesh" }), 1)] })).await;
    world
        .timeout(
            "b-port",
            json!({ "to": [to(&json!({ "kind": "MeshService", "name": "api", "sectionName": "http" }), 2)] }),
        )
        .await;
    world.timeout("c-route", json!({ "to": [to(&json!({ "kind": "MeshHTTPRoute", "name": "v1" }), 3)] })).await;
    let idle = async |path: &str| {
        let policies = world.get(&format!("{WEB}/_outbounds/{path}")).await["policies"].take();
        let of_kind = policies.as_array().unwrap().iter().find(|each| each["kind"] == "MeshTimeout").unwrap();
        of_kind["conf"][0]["idleTimeout"].clone()
    };
    let (http, other) = ("kri_msvc_default_east__api_http", "kri_msvc_default_east__api_81");
    assert_eq!(idle(&format!("{http}/_policies")).await, "2s");
    assert_eq!(idle(&format!("{other}/_policies")).await, "1s");
    let (v1, v2) = ("kri_mhttpr_default_east__v1_", "kri_mhttpr_default_east__v2_");
    assert_eq!(idle(&format!("{http}/_routes/{v1}/_policies")).await, "3s");
    assert_eq!(idle(&format!("{http}/_routes/{v2}/_policies")).await, "2s");
    let of_route = world.get(&format!("{WEB}/_outbounds/{http}/_routes/{v1}/_policies")).await;
    assert_eq!(texts(&of_route["policies"], "/kind"), ["MeshTimeout"]);

    let routes = world.get(&format!("{WEB}/_outbounds/{http}/_routes")).await;
    let rule = &routes["routes"][0]["rules"][0];
    assert_eq!((&rule["kri"], &rule["matches"]), (&json!(v1), &matches));
    assert_eq!(rule["conf"]["backendRefs"][0]["port"], 80);
    let none = world.get(&format!("{WEB}/_outbounds/kri_extsvc_default___x_/_routes")).await;
    assert_eq!(none, json!({ "routes": [] }));
}

#[tokio::test]
async fn layout_has_inbounds_listeners_and_outbounds() {
    let world = World::new("Exclusive").await;
    world.service("api").await;
    let inbounds = json!([
        { "port": 8080, "protocol": "http", "tags": { "kuma.io/service": "web" } },
        { "port": 49151, "state": "Ignored", "tags": { "kuma.io/service": "web" } },
    ]);
    let listeners = json!([{ "type": "ZoneEgress", "address": "127.0.0.1", "port": 10002, "name": "out" }]);
    world.dataplane("web-1", json!({ "inbound": inbounds, "listeners": listeners })).await;
    let found = world.get(&format!("{WEB}/_layout")).await;
    assert_eq!(found["kri"], "kri_dp_default_east__web-1_");
    assert_eq!(
        found["inbounds"],
        json!([{
            "kri": "kri_dp_default_east__web-1_8080", "port": 8080, "protocol": "http",
            "proxyResourceName": "self_inbound_dp_8080",
        }])
    );
    assert_eq!(
        found["listeners"],
        json!([{
            "kri": "kri_dp_default_east__web-1_out", "type": "ZoneEgress", "port": 10002,
            "proxyResourceName": "self_zoneegress_dp_out",
        }])
    );
    let ports = texts(&found["outbounds"], "/kri");
    assert_eq!(ports, ["kri_msvc_default_east__api_81", "kri_msvc_default_east__api_http"]);
    assert_eq!(texts(&found["outbounds"], "/protocol"), ["tcp", "http"]);
    assert_eq!(found.get("spiffeId"), None);
}
