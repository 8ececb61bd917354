//! A small mesh, counted.

use serde_json::{Value, json};

use super::*;

fn proxy(networking: &Value, insight: Option<Value>) -> ObservedProxy {
    ObservedProxy {
        dataplane: serde_json::from_value(json!({ "networking": networking })).unwrap(),
        insight: insight.map(|insight| serde_json::from_value(insight).unwrap()),
    }
}

fn connected(backend: &str) -> Value {
    json!({
        "subscriptions": [{ "connectTime": "2026-01-01T00:00:00Z", "version": { "envoy": { "version": "1.40.0" } } }],
        "mTLS": { "issuedBackend": backend, "supportedBackends": [backend] },
    })
}

fn mesh() -> Vec<ObservedProxy> {
    let inbound = |service: &str, zone: &str| json!({ "inbound": [{ "port": 80, "tags": { "kuma.io/service": service, "kuma.io/zone": zone } }] });
    vec![
        proxy(&inbound("web", "east"), Some(connected("ca-1"))),
        proxy(&inbound("web", "west"), None),
        proxy(&inbound("db", "east"), Some(connected("ca-1"))),
        proxy(&json!({ "gateway": { "tags": { "kuma.io/service": "edge" } } }), Some(connected("ca-1"))),
    ]
}

#[test]
fn service_status_is_derived_from_its_proxies() {
    let services = serde_json::to_value(services(&mesh(), false)).unwrap();
    assert_eq!(
        services,
        json!({
            "web": {
                "status": "partially_degraded", "dataplanes": { "total": 2, "online": 1, "offline": 1 },
                "issuedBackends": { "ca-1": 1 }, "addressPort": "web.mesh:80", "zones": ["east", "west"],
            },
            "db": {
                "status": "online", "dataplanes": { "total": 1, "online": 1 },
                "issuedBackends": { "ca-1": 1 }, "addressPort": "db.mesh:80", "zones": ["east"],
            },
            "edge": {
                "status": "online", "dataplanes": { "total": 1, "online": 1 },
                "issuedBackends": { "ca-1": 1 }, "serviceType": "gateway_delegated",
            },
        })
    );
}

#[test]
fn exclusive_mode_shows_only_delegated_gateways_by_tag() {
    let services = services(&mesh(), true);
    assert_eq!(services.keys().collect::<Vec<_>>(), ["edge"]);
}

#[test]
fn mesh_insight_counts_by_type_status_version_and_backend() {
    let proxies = mesh();
    let services = services(&proxies, false);
    let resources = [("Dataplane", 4, false), ("MeshTimeout", 2, true)];
    let facts = MeshFacts { resources: &resources, services: &services, exclusive: false };
    let insight = serde_json::to_value(mesh_insight(&proxies, &facts)).unwrap();
    assert_eq!(insight["dataplanes"], json!({ "total": 4, "online": 3, "offline": 1 }));
    assert_eq!(insight["dataplanesByType"]["gatewayDelegated"], json!({ "total": 1, "online": 1 }));
    assert_eq!(insight["dpVersions"]["envoy"]["1.40.0"], json!({ "total": 3, "online": 3 }));
    assert_eq!(insight["dpVersions"]["envoy"]["unknown"], json!({ "total": 1, "offline": 1 }));
    assert_eq!(insight["mTLS"]["supportedBackends"]["ca-1"], json!({ "total": 3, "online": 3 }));
    assert_eq!(insight["services"], json!({ "total": 3, "internal": 3 }));
    assert_eq!(insight["policies"], json!({ "MeshTimeout": { "total": 2 } }));
    assert_eq!(insight["resources"]["Dataplane"], json!({ "total": 4 }));
}
