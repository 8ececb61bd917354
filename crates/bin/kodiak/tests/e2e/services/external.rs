//! Outbounds with a `backendRef`: MeshService, MeshMultiZoneService and MeshExternalService.

use std::net::{Ipv4Addr, SocketAddr};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use hyper::StatusCode;
use serde_json::{Value, json};

use super::{answers, calling, mesh_service};
use crate::harness::{
    Dataplane, Door, MESH, Mesh, Mtls, Service, Tls, eventually, expect, get, until_answered, workload_address,
};

/// Name in the certificate of the external server.
const NAME: &str = "api.example.com";

#[tokio::test(flavor = "multi_thread")]
async fn calls_a_mesh_service_by_backend_ref() {
    let Some(mesh) = Mesh::start(Mtls::Strict(vec![Mtls::builtin("ca-1")])).await else { return };
    mesh.permit_all().await;
    mesh.set_services("Exclusive").await;
    let (service, backend) = mesh.backend("backend-1").await;
    let port = backend.dataplane.inbound().port();
    let client = calling(&mesh, &[json!({ "kind": "MeshService", "name": "backend", "port": port })]).await;
    let answer = until_answered(client.dataplane.other(0)).await;
    assert_eq!(answer.text, "backend-1");
    assert!(service.counted() > 0);
    assert_ne!(client.requests_to(&format!("backend__default_{MESH}_msvc_{port}")).await, Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_a_mesh_multi_zone_service_by_backend_ref() {
    let Some(mesh) = Mesh::start(Mtls::Strict(vec![Mtls::builtin("ca-1")])).await else { return };
    mesh.permit_all().await;
    mesh.set_services("Everywhere").await;
    let serving = |name: &'static str| mesh.serving(name, move |service| Dataplane::serving_as(name, name, service));
    let ((_one, first), (_two, second)) = tokio::join!(serving("one"), serving("two"));
    for (name, sidecar) in [("first", &first), ("second", &second)] {
        mesh_service(&mesh, name, sidecar).await;
    }
    let ports = json!([{ "port": 80, "appProtocol": "http" }]);
    let spec = json!({ "selector": { "meshService": { "matchLabels": { "team": "shop" } } }, "ports": ports });
    mesh.put("MeshMultiZoneService", "both", &spec).await;
    let client = calling(&mesh, &[json!({ "kind": "MeshMultiZoneService", "name": "both", "port": 80 })]).await;
    until_answered(client.dataplane.other(0)).await;
    eventually("both services answer", async || {
        let answers = answers(client.dataplane.other(0), 20).await?;
        expect(answers.keys().eq(["one", "two"]), answers)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_an_external_service_with_its_own_name() {
    let Some(mesh) = Mesh::start(Mtls::Strict(vec![Mtls::builtin("ca-1")])).await else { return };
    let service = Service::start("outside", Ipv4Addr::LOCALHOST).await;
    let endpoints = json!([{ "address": "localhost", "port": service.address.port() }]);
    external(&mesh, &endpoints, None).await;
    let client = calling(&mesh, &[json!({ "kind": "MeshExternalService", "name": "outside" })]).await;
    assert_eq!(until_answered(client.dataplane.other(0)).await.text, "outside");
    assert_eq!(service.last().headers["host"], "localhost");
}

#[tokio::test(flavor = "multi_thread")]
async fn verifies_the_certificate_of_an_external_service() {
    let Some(mesh) = Mesh::start(Mtls::Off).await else { return };
    let service = Service::start("outside", workload_address()).await;
    let tls = Tls::start(NAME, service.address).await;
    let data = STANDARD.encode(&tls.authority);
    let secret = json!({ "type": "Secret", "mesh": MESH, "name": "outside-ca", "data": data });
    mesh.control_plane.put(&format!("/meshes/{MESH}/secrets/outside-ca"), &secret).await;
    let endpoints = json!([{ "address": tls.address.ip(), "port": tls.address.port() }]);
    let expecting = |name: &str| {
        let ca = json!({ "secret": "outside-ca" });
        let names = json!([{ "type": "Exact", "value": name }]);
        Some(json!({ "enabled": true, "verification": { "caCert": ca, "subjectAltNames": names } }))
    };
    external(&mesh, &endpoints, expecting(NAME)).await;
    let client = calling(&mesh, &[json!({ "kind": "MeshExternalService", "name": "outside" })]).await;
    assert_eq!(until_answered(client.dataplane.other(0)).await.text, "outside");

    for (name, status) in [("other.example.com", StatusCode::SERVICE_UNAVAILABLE), (NAME, StatusCode::OK)] {
        external(&mesh, &endpoints, expecting(name)).await;
        eventually(&format!("{name} is answered with {status}"), async || {
            let answer = get(client.dataplane.other(0), "/").await?;
            expect(answer.status == status, answer)
        })
        .await;
    }
    assert_ne!(client.sum_of("^cluster.outside__.*ssl.fail_verify_san$").await, 0, "it was refused for its name");
}

#[tokio::test(flavor = "multi_thread")]
async fn second_endpoint_of_an_external_service_takes_over() {
    let Some(mesh) = Mesh::start(Mtls::Off).await else { return };
    let first = Service::start("first", workload_address()).await;
    let second = Service::start("second", workload_address()).await;
    let mut door = Door::open(first.address).await;
    let endpoint = |address: SocketAddr, priority| json!({ "address": address.ip(), "port": address.port(), "priority": priority });
    external(&mesh, &json!([endpoint(door.address, 0), endpoint(second.address, 1)]), None).await;
    let detection = json!({
        "interval": "1s", "baseEjectionTime": "10m", "maxEjectionPercent": 100,
        "detectors": { "totalFailures": { "consecutive": 3 } },
    });
    let target = json!({ "kind": "MeshExternalService", "name": "outside" });
    let to = json!([{ "targetRef": target, "default": { "outlierDetection": detection } }]);
    mesh.put("MeshCircuitBreaker", "outliers", &json!({ "to": to })).await;
    let client = calling(&mesh, &[json!({ "kind": "MeshExternalService", "name": "outside" })]).await;
    until_answered(client.dataplane.other(0)).await;
    let told = answers(client.dataplane.other(0), 20).await.unwrap();
    assert!(told.keys().eq(["first"]), "the second is not needed: {told:?}");
    door.close().await;
    eventually("the second answers", async || {
        let answers = answers(client.dataplane.other(0), 5).await?;
        expect(answers.keys().eq(["second"]), answers)
    })
    .await;
}

/// External HTTP server.
async fn external(mesh: &Mesh, endpoints: &Value, tls: Option<Value>) {
    let matching = json!({ "type": "HostnameGenerator", "port": 80, "protocol": "http" });
    let mut spec = json!({ "match": matching, "endpoints": endpoints });
    if let Some(tls) = tls {
        spec["tls"] = tls;
    }
    mesh.put("MeshExternalService", "outside", &spec).await;
}
