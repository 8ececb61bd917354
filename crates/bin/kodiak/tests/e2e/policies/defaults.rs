//! Default policies of a new mesh, and status of policies.

use hyper::StatusCode;
use serde_json::{Value, json};

use super::{retries::until_tried, to_backend};
use crate::harness::{MESH, Mesh, Mtls};

#[tokio::test(flavor = "multi_thread")]
async fn default_policies_are_in_force() {
    let Some(mesh) = Mesh::start_with_defaults().await else { return };
    let (service, _backend) = mesh.backend("backend-1").await;
    let client = mesh.client().await;

    let config = mesh.control_plane.get(&format!("/meshes/{MESH}/dataplanes/client/_config")).await.json();
    let of_type = |name: &str| &config["xds"][format!("type.googleapis.com/envoy.config.{name}")];
    let backend = &of_type("cluster.v3.Cluster")["backend"];
    assert_eq!(backend["connectTimeout"], "5s", "{backend:#}");
    let limits = &backend["circuitBreakers"]["thresholds"][0];
    assert_eq!((&limits["maxRequests"], &limits["maxRetries"]), (&json!(1024), &json!(3)), "{backend:#}");
    let listener = &of_type("listener.v3.Listener")[format!("outbound:{}", client.outbound())];
    let route = listener.pointer("/filterChains/0/filters/0/typedConfig/routeConfig/virtualHosts/0/routes/0/route");
    let route = route.unwrap_or_else(|| panic!("{listener:#}"));
    assert_eq!((&route["timeout"], &route["idleTimeout"]), (&json!("15s"), &json!("1800s")), "{route:#}");
    assert_eq!(route["retryPolicy"]["numRetries"], 5, "{route:#}");
    until_tried(&client, &service, 5, (StatusCode::OK, 6)).await;

    mesh.put("MeshAccessLog", "log", &access_log()).await;
    let statuses = mesh.control_plane.get(&format!("/meshes/{MESH}/_policies")).await.json();
    let states: Vec<_> = statuses["items"].as_array().unwrap().iter().map(state).collect();
    let expected = [
        "MeshAccessLog log InForce",
        "MeshCircuitBreaker mesh-circuit-breaker-all-shop InForce",
        "MeshRetry mesh-retry-all-shop InForce",
        // There is no gateway.
        "MeshTimeout mesh-gateways-timeout-all-shop NotInForce NoMatch",
        "MeshTimeout mesh-timeout-all-shop InForce",
    ];
    assert_eq!(states, expected, "{statuses:#}");

    // What is said of one service is stronger than what is said of all; the rest of it stays.
    mesh.put("MeshRetry", "fewer", &to_backend(&json!({ "http": { "numRetries": 1 } }))).await;
    until_tried(&client, &service, 5, (StatusCode::SERVICE_UNAVAILABLE, 2)).await;
    mesh.delete("MeshRetry", "fewer").await;
    until_tried(&client, &service, 5, (StatusCode::OK, 6)).await;
}

/// Kind, name and state, with the reasons.
fn state(status: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let reasons = status["reasons"].as_array().unwrap().iter().map(|reason| text(&reason["reason"]));
    let own = ["type", "name", "state"].map(|field| text(&status[field]));
    own.into_iter().chain(reasons).collect::<Vec<_>>().join(" ")
}

fn access_log() -> Value {
    let backends = json!([{ "type": "File", "file": { "path": "/dev/null" } }]);
    json!({ "to": [{ "targetRef": { "kind": "Mesh" }, "default": { "backends": backends } }] })
}

#[tokio::test(flavor = "multi_thread")]
async fn route_to_a_missing_backend_fails_and_is_reported() {
    let Some(mesh) = Mesh::start(Mtls::Off).await else { return };
    let (_service, _backend) = mesh.backend("backend-1").await;
    let client = mesh.client().await;
    let every = json!([{ "path": { "type": "PathPrefix", "value": "/" } }]);
    let nowhere = json!([{ "kind": "MeshService", "name": "nowhere" }]);
    let rules = json!([{ "matches": every, "default": { "backendRefs": nowhere } }]);
    mesh.put("MeshHTTPRoute", "nowhere", &super::routes(&rules)).await;
    super::until_status(&client, StatusCode::NOT_FOUND).await;
    let status = mesh.control_plane.get(&format!("/meshes/{MESH}/meshhttproutes/nowhere/_status")).await.json();
    assert!(state(&status).ends_with("Unresolved"), "{status:#}");
}
