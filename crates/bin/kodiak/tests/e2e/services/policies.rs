//! Policies that target MeshServices.

use std::time::Duration;

use hyper::StatusCode;
use serde_json::json;

use super::{answers, calling, mesh_service};
use crate::harness::{Dataplane, Manner, Mesh, Mtls, eventually, expect, get, until_answered};

/// Longer than the short timeout here, and far shorter than the long one.
const LATE: Manner = Manner::Late(Duration::from_millis(400));

#[tokio::test(flavor = "multi_thread")]
async fn timeout_applies_to_one_port_of_a_service() {
    let Some(mesh) = Mesh::start(Mtls::Strict(vec![Mtls::builtin("ca-1")])).await else { return };
    mesh.permit_all().await;
    mesh.set_services("Everywhere").await;
    let (service, backend) = mesh.backend("backend-1").await;
    let port = backend.dataplane.inbound().port();
    let client = calling(&mesh, &[json!({ "kind": "MeshService", "name": "backend", "port": port })]).await;
    let outbound = client.dataplane.other(0);
    until_answered(outbound).await;
    service.answers(LATE);
    for (section, timeout, status) in [
        (port.to_string(), "100ms", StatusCode::GATEWAY_TIMEOUT),
        (port.to_string(), "20s", StatusCode::OK),
        (port.to_string(), "100ms", StatusCode::GATEWAY_TIMEOUT),
        ("another".to_owned(), "100ms", StatusCode::OK),
    ] {
        let target = json!({ "kind": "MeshService", "name": "backend", "sectionName": section });
        let to = json!([{ "targetRef": target, "default": { "http": { "requestTimeout": timeout } } }]);
        mesh.put("MeshTimeout", "timeouts", &json!({ "to": to })).await;
        eventually(&format!("{section} has {timeout}"), async || {
            let answer = get(outbound, "/").await?;
            expect(answer.status == status, answer)
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn splits_requests_between_ports_of_services() {
    let Some(mesh) = Mesh::start(Mtls::Strict(vec![Mtls::builtin("ca-1")])).await else { return };
    mesh.permit_all().await;
    mesh.set_services("Exclusive").await;
    let serving = |name: &'static str| mesh.serving(name, move |service| Dataplane::serving_as(name, name, service));
    let ((_old, old), (_new, new)) = tokio::join!(serving("old"), serving("new"));
    mesh_service(&mesh, "first", &old).await;
    mesh_service(&mesh, "second", &new).await;
    let client = calling(&mesh, &[json!({ "kind": "MeshService", "name": "first", "port": 80 })]).await;
    let outbound = client.dataplane.other(0);
    assert_eq!(until_answered(outbound).await.text, "old");

    let part = |name: &str, weight: u32| json!({ "kind": "MeshService", "name": name, "port": 80, "weight": weight });
    let matches = json!([{ "path": { "type": "PathPrefix", "value": "/" } }]);
    let default = json!({ "backendRefs": [part("first", 90), part("second", 10)] });
    let target = json!({ "kind": "MeshService", "name": "first", "sectionName": "80" });
    let to = json!([{ "targetRef": target, "rules": [{ "matches": matches, "default": default }] }]);
    mesh.until_taken("client", mesh.put("MeshHTTPRoute", "split", &json!({ "to": to }))).await;
    let answers = answers(outbound, 1000).await.unwrap();
    // Bounds for one in ten which a fair split leaves less than once in 10^10 runs.
    assert!((40..=170).contains(&answers["new"]), "{answers:?}");
}
