//! Policies are created, changed and deleted under load. No request fails.

use serde_json::{Value, json};

use super::{routes, to_backend};
use crate::harness::{Dataplane, Load, Mesh, Mtls};

#[tokio::test(flavor = "multi_thread")]
async fn policies_change_under_load() {
    check(&[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn policies_change_under_load_with_state_of_the_world_xds() {
    check(&["--sotw"]).await;
}

async fn check(flags: &[&str]) {
    let Some(mesh) = Mesh::start(Mtls::Strict(vec![Mtls::builtin("ca-1")])).await else { return };
    mesh.permit_all().await;
    let (_one, _two) = tokio::join!(mesh.backend("backend-1"), mesh.backend("backend-2"));
    let client = mesh.client_with(Dataplane::calling("client"), flags).await;
    let load = Load::on(&client);
    for (proxy, kind, spec) in policies() {
        mesh.until_taken(proxy, mesh.put(kind, "changing", &spec)).await;
        load.go_on(5).await;
    }
    for (proxy, kind) in [
        ("client", "MeshHTTPRoute"),
        ("client", "MeshLoadBalancingStrategy"),
        ("client", "MeshRetry"),
        ("backend-1", "MeshCircuitBreaker"),
        ("backend-1", "MeshTimeout"),
    ] {
        mesh.until_taken(proxy, mesh.delete(kind, "changing")).await;
        load.go_on(5).await;
    }
    load.end().await;
}

/// Each with a proxy for which it changes something. None of them would hide a failure.
fn policies() -> Vec<(&'static str, &'static str, Value)> {
    let below = |path: &str| json!([{ "path": { "type": "PathPrefix", "value": path } }]);
    let header = |value: &str| json!({ "set": [{ "name": "x-added", "value": value }] });
    let modified = |path: &str, value: &str| {
        let filter = json!({ "type": "RequestHeaderModifier", "requestHeaderModifier": header(value) });
        routes(&json!([{ "matches": below(path), "default": { "filters": [filter] } }]))
    };
    let retry = |on: &str| to_backend(&json!({ "http": { "numRetries": 3, "retryOn": [on] } }));
    let balancer = |kind: &str| to_backend(&json!({ "loadBalancer": { "type": kind } }));
    let limits = |most: u32| json!({ "connectionLimits": { "maxConnections": most, "maxRequests": most } });
    let timeouts = |connect: &str, request: &str| {
        let http = json!({ "requestTimeout": request });
        json!({ "connectionTimeout": connect, "idleTimeout": "10m", "http": http })
    };
    let inbound = |conf: Value| json!({ "rules": [{ "default": conf }] });
    vec![
        ("client", "MeshTimeout", to_backend(&timeouts("10s", "30s"))),
        ("backend-1", "MeshTimeout", inbound(timeouts("10s", "30s"))),
        ("backend-1", "MeshTimeout", inbound(timeouts("11s", "31s"))),
        ("client", "MeshCircuitBreaker", to_backend(&limits(2000))),
        ("backend-1", "MeshCircuitBreaker", inbound(limits(2000))),
        ("client", "MeshRetry", retry("501")),
        ("client", "MeshRetry", retry("505")),
        ("client", "MeshLoadBalancingStrategy", balancer("RingHash")),
        ("client", "MeshLoadBalancingStrategy", balancer("Random")),
        ("client", "MeshHTTPRoute", modified("/", "one")),
        ("client", "MeshHTTPRoute", modified("/other", "two")),
    ]
}
