//! Requests of a stock kumactl, command by command, and the fields of the responses that it reads.

use std::time::{Duration, Instant};

use hyper::{Method, StatusCode};
use serde_json::{Value, json};

use crate::{
    ads::Stream,
    harness::{Answer, TestControlPlane},
};

async fn post(cp: &TestControlPlane, path: &str, body: &Value) -> Answer {
    cp.send(Method::POST, path, &[], body.to_string()).await
}

#[track_caller]
fn ok(answer: &Answer) -> Value {
    assert_eq!(answer.status, StatusCode::OK, "{}", answer.text);
    answer.json()
}

/// A Dataplane, a builtin gateway with its MeshGateway, and a MeshTimeout.
async fn with_resources() -> TestControlPlane {
    let cp = TestControlPlane::start().await;
    let gateway =
        json!({ "address": "10.0.0.2", "gateway": { "type": "BUILTIN", "tags": { "kuma.io/service": "edge" } } });
    let inbound = json!([{ "port": 80, "tags": { "kuma.io/service": "web" } }]);
    let timeout = json!({ "to": [{ "targetRef": { "kind": "Mesh" }, "default": { "idleTimeout": "1h" } }] });
    for (path, resource) in [
        (
            "dataplanes/web-1",
            json!({ "type": "Dataplane", "networking": { "address": "10.0.0.1", "inbound": inbound } }),
        ),
        ("dataplanes/edge-1", json!({ "type": "Dataplane", "networking": gateway })),
        (
            "meshgateways/edge",
            json!({
                "type": "MeshGateway", "selectors": [{ "match": { "kuma.io/service": "edge" } }],
                "conf": { "listeners": [{ "port": 8080, "protocol": "HTTP" }] },
            }),
        ),
        ("meshtimeouts/slow", json!({ "type": "MeshTimeout", "spec": timeout })),
    ] {
        let mut resource = resource;
        (resource["mesh"], resource["name"]) = (json!("default"), json!(path.split_once('/').unwrap().1));
        let answer = cp.put(&format!("/meshes/default/{path}"), &resource).await;
        assert_eq!(answer.status, StatusCode::CREATED, "{}", answer.text);
    }
    cp
}

/// `config control-planes add`, the version check of every command, and `version`.
#[tokio::test]
async fn control_plane_is_accepted_without_a_warning() {
    let cp = TestControlPlane::start().await;
    let index = ok(&cp.get("/").await);
    assert_eq!((&index["product"], &index["version"]), (&json!("Kuma"), &json!("2.14.3")));
    assert_eq!(index["kodiak"], json!({ "product": "Kodiak", "version": env!("CARGO_PKG_VERSION") }));
    for field in ["hostname", "instanceId", "clusterId", "basedOnKuma"] {
        assert!(!index[field].as_str().unwrap().is_empty(), "{field}");
    }
    let cp = cp.restart_with(|config| config.api_server.present_as_kuma = false).await;
    let index = ok(&cp.get("/").await);
    assert_eq!((&index["product"], &index["version"]), (&json!("Kodiak"), &json!(env!("CARGO_PKG_VERSION"))));
    assert_eq!(index["kodiak"]["product"], "Kodiak");
}

/// `generate dataplane-token`, `zone-token` and `user-token` without optional flags.
#[tokio::test]
async fn token_requests_may_have_null_for_optional_fields() {
    let cp = TestControlPlane::start().await;
    let dataplane =
        json!({ "name": "", "mesh": "default", "tags": null, "type": "", "workload": null, "validFor": "24h0m0s" });
    let zone = json!({ "zone": null, "scope": ["ingress", "egress"], "validFor": "24h0m0s" });
    let user = json!({ "name": "jo", "groups": null, "validFor": "24h0m0s" });
    for (path, body) in [("dataplane", dataplane), ("zone", zone), ("user", user)] {
        let answer = post(&cp, &format!("/tokens/{path}"), &body).await;
        assert_eq!(answer.status, StatusCode::OK, "{}", answer.text);
        assert_eq!(answer.text.split('.').count(), 3, "{}", answer.text);
    }
    let answer = post(&cp, "/tokens/user", &json!({ "name": null, "validFor": null })).await;
    assert_eq!(answer.problems(), ["name: cannot be empty", "validFor: cannot be empty"]);
}

/// `inspect <policy>`, `inspect meshgateway`, `inspect dataplane`.
#[tokio::test]
async fn policies_and_gateways_can_be_inspected() {
    let cp = with_resources().await;
    let affected = ok(&cp.get("/meshes/default/meshtimeouts/slow/dataplanes").await);
    assert_eq!(affected["total"], 2);
    let kinds: Vec<_> =
        affected["items"].as_array().unwrap().iter().map(|item| item["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["MeshGatewayDataplane", "SidecarDataplane"]);
    assert_eq!(affected["items"][1]["attachments"][0]["type"], "dataplane");
    let members = ok(&cp.get("/meshes/default/meshgateways/edge/dataplanes").await);
    assert_eq!(members, json!({ "total": 1, "items": [{ "dataplane": { "mesh": "default", "name": "edge-1" } }] }));
    assert_eq!(ok(&cp.get("/meshes/default/meshgateways/edge").await)["kri"], "kri_mgw_default_default__edge_");
    let sidecar = ok(&cp.get("/meshes/default/dataplanes/web-1/policies").await);
    assert_eq!(sidecar["kind"], "SidecarDataplane");
    assert!(sidecar["items"][0]["matchedPolicies"]["MeshTimeout"].is_array());
    let gateway = ok(&cp.get("/meshes/default/dataplanes/edge-1/policies").await);
    assert_eq!((&gateway["kind"], &gateway["gateway"]["name"]), (&json!("MeshGatewayDataplane"), &json!("edge")));
    assert!(gateway["policies"]["MeshTimeout"]["name"].is_string(), "one policy of each kind: {gateway}");
}

/// `inspect dataplanes`, `services`, `meshes`, `zones`, `zone-ingresses` and `zoneegresses`.
#[tokio::test]
async fn lists_with_insights_are_served_under_all_paths() {
    let cp = with_resources().await;
    let count = async |path: &str| {
        let list = ok(&cp.get(path).await);
        assert!(list["items"].is_array() && list.get("next").is_some(), "{path}: {list}");
        list["total"].as_u64().unwrap()
    };
    for (path, total) in [
        ("/meshes/default/dataplanes/_overview", 2),
        ("/meshes/default/dataplanes+insights", 2),
        ("/meshes/default/dataplanes/_overview?gateway=true", 1),
        ("/meshes/default/dataplanes/_overview?ingress=true&tag=kuma.io%2Fservice%3Aweb", 1),
        ("/meshes/default/service-insights", 2),
        ("/mesh-insights", 1),
        ("/zones/_overview", 1),
        ("/zones+insights", 1),
        ("/zoneingresses/_overview", 0),
        ("/zone-ingresses/_overview", 0),
        ("/zoneingresses+insights", 0),
        ("/zoneegresses/_overview", 0),
        ("/zoneegressoverviews", 0),
        ("/meshes/", 1),
        ("/meshes/default/dataplanes/", 2),
        ("/meshes/default/meshtimeouts/?size=1", 3),
    ] {
        assert_eq!(count(path).await, total, "{path}");
    }
    assert_eq!(ok(&cp.get("/meshes/default/").await)["name"], "default");
    assert_eq!(cp.get("/nope/").await.text, "404: Page Not Found");
}

/// `inspect zoneingress` and `inspect zoneegress`: an error that kumactl can show.
#[tokio::test]
async fn zone_proxies_have_no_envoy() {
    let cp = TestControlPlane::start().await;
    let ingress =
        json!({ "type": "ZoneIngress", "name": "in", "networking": { "address": "10.0.0.9", "port": 10001 } });
    assert_eq!(cp.put("/zoneingresses/in", &ingress).await.status, StatusCode::CREATED);
    for (path, title) in [
        ("/zoneingresses/in/xds?include_eds=true", "Could not retrieve the ZoneIngressInsight"),
        ("/zone-ingresses/in/stats", "Could not retrieve the ZoneIngressInsight"),
        ("/zoneingresses/other/clusters", "Could not retrieve a resource"),
        ("/zoneegresses/out/xds", "Could not retrieve a resource"),
    ] {
        let answer = cp.get(path).await;
        assert_eq!((answer.status, answer.json()["title"].clone()), (StatusCode::NOT_FOUND, json!(title)), "{path}");
    }
}

/// `export` reads the kinds.
#[tokio::test]
async fn kinds_have_their_display_names() {
    let cp = TestControlPlane::start().await;
    let kinds = ok(&cp.get("/_resources").await);
    let plural = |name: &str| {
        let mut kinds = kinds["resources"].as_array().unwrap().iter();
        kinds.find(|kind| kind["name"] == name).unwrap()["pluralDisplayName"].as_str().unwrap().to_owned()
    };
    for (name, expected) in [
        ("DataplaneInsight", "Dataplane Insights"),
        ("MeshInsight", "Mesh Insights"),
        ("ServiceInsight", "Service Insights"),
        ("ZoneInsight", "Zone Insights"),
        ("ZoneIngress", "Zone Ingresses"),
        ("Mesh", "Meshes"),
        ("MeshTLS", "Mesh TLSes"),
        ("MeshRetry", "Mesh Retries"),
        ("MeshProxyPatch", "Mesh Proxy Patches"),
    ] {
        assert_eq!(plural(name), expected);
    }
    let who = ok(&cp.get("/who-am-i").await);
    assert_eq!(who["groups"], json!(["mesh-system:admin", "mesh-system:authenticated"]));
}

/// `inspect dataplanes`: columns about updates and certificates, of a state-of-the-world client such as kuma-dp.
#[tokio::test]
async fn healthy_proxy_has_acknowledged_all_responses() {
    const PATIENCE: Duration = Duration::from_mins(1);
    let cp = with_resources().await;
    let mtls = json!({ "enabledBackend": "ca-1", "backends": [{ "name": "ca-1", "type": "builtin" }] });
    let mesh = json!({ "type": "Mesh", "name": "default", "mtls": mtls });
    assert_eq!(cp.put("/meshes/default", &mesh).await.status, StatusCode::OK);
    let mut stream = Stream::connect(&cp, "default", "web-1").await;
    stream.receive().await;
    stream.request(kodiak_xds_stream::TypeUrl::Listener);
    let started = Instant::now();
    loop {
        // Steps of the mTLS rollout bring further responses.
        while tokio::time::timeout(Duration::from_millis(200), stream.receive()).await.is_ok() {}
        let overview = ok(&cp.get("/meshes/default/dataplanes/web-1/_overview").await);
        let insight = &overview["dataplaneInsight"];
        let total = &insight["subscriptions"][0]["status"]["total"];
        let sent: u64 = total["responsesSent"].as_str().unwrap_or("0").parse().unwrap();
        let mtls = &insight["mTLS"];
        let is_issued = mtls["issuedBackend"].is_string();
        if is_issued && sent > 1 && total["responsesAcknowledged"] == total["responsesSent"] {
            assert!(mtls["certificateRegenerations"].as_u64() >= Some(1), "{mtls}");
            for field in ["lastCertificateRegeneration", "certificateExpirationTime"] {
                assert!(mtls[field].is_string(), "{field} in {mtls}");
            }
            assert_eq!(mtls["supportedBackends"], json!(["ca-1"]));
            return;
        }
        assert!(started.elapsed() < PATIENCE, "{insight}");
    }
}
