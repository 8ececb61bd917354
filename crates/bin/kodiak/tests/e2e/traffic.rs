//! Observed traffic, and permissions that are drafted from it.

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    path::Path,
    process::{Command, Output},
};

use hyper::StatusCode;
use serde_json::{Value, json};

use crate::harness::{
    Dataplane, MESH, Manner, Mesh, Mtls, Service, Setup, eventually, expect, get, until_answered, workload_address,
};

const OBSERVING: Setup = Setup {
    settings: &["traffic.observe=true", "traffic.reportInterval=1s", "traffic.flushInterval=1s"],
    ..Setup::DEFAULT
};

/// Requests by client and destination.
type Edges = BTreeMap<(String, String), u64>;

#[tokio::test(flavor = "multi_thread")]
async fn drafted_permissions_allow_the_observed_traffic_and_nothing_else() {
    let mtls = Mtls::Strict(vec![Mtls::builtin("ca-1")]);
    let Some(mesh) = Mesh::start_with(mtls, OBSERVING).await else { return };
    mesh.permit_all().await;
    let (_backend_service, _backend) = mesh.backend("backend-1").await;
    let orders_service = Service::start("orders-1", workload_address()).await;
    let serves_orders = Dataplane::serving_as("orders", "orders-1", &orders_service).also_calling("backend-tcp");
    let orders = mesh.sidecar(serves_orders).await;
    let web = mesh.sidecar(Dataplane::calling("web").also_calling("orders")).await;
    let (to_orders, to_backend) = (web.dataplane.other(0), orders.dataplane.other(0));

    // web calls orders over HTTP, orders calls backend over TCP, and nobody uses the outbounds of web to backend.
    until_observed(&mesh, &["orders,orders-tcp", "web"]).await;
    until_answered(to_orders).await;
    until_answered(to_backend).await;
    let edge = |client: &str, destination: &str| (client.to_owned(), destination.to_owned());
    let (http, tcp) = (edge("web", "orders"), edge("orders,orders-tcp", "backend-tcp"));
    let before = until_edges(&mesh, "both edges are there", |edges| edges.len() == 2).await;
    assert_eq!(before.keys().collect::<Vec<_>>(), [&tcp, &http]);

    // Each call is counted once.
    call(to_orders, 20).await;
    call(to_backend, 10).await;
    let counted = [(tcp.clone(), before[&tcp] + 10), (http.clone(), before[&http] + 20)].into();
    until_edges(&mesh, "all calls are counted", |edges| *edges == counted).await;

    // Also when the control plane dies, and calls happen meanwhile.
    until_stored(&mesh, before[&http] + 20).await;
    let mesh = mesh.crash(async || call(to_orders, 5).await).await;
    let counted = [(tcp.clone(), before[&tcp] + 10), (http.clone(), before[&http] + 25)].into();
    until_edges(&mesh, "calls are still counted after the restart", |edges| *edges == counted).await;

    // Failures are counted apart.
    let traffic = observed(&mesh).await;
    assert_eq!(traffic["window"]["observing"], true, "{traffic}");
    assert!(traffic["edges"].as_array().unwrap().iter().all(|edge| edge["failed"] == 0), "{traffic}");
    orders_service.answers(Manner::Failing(3));
    for _ in 0..3 {
        assert_eq!(get(to_orders, "/").await.unwrap().status, StatusCode::SERVICE_UNAVAILABLE);
    }
    eventually("the failed calls are counted", async || {
        let traffic = observed(&mesh).await;
        let edges = traffic["edges"].as_array().unwrap();
        let failed = edges.iter().find(|edge| edge["destination"] == "orders").map(|edge| edge["failed"].clone());
        expect(failed == Some(json!(3)), &traffic)
    })
    .await;

    // Deny by default, but for the draft.
    let file = mesh.folder().join("permissions.yaml");
    let drafted = kodiak(&mesh, &["permissions", "draft", "-m", MESH, "-o", path(&file)]);
    assert!(String::from_utf8_lossy(&drafted.stderr).contains("2 MeshTrafficPermissions"), "{drafted:?}");
    kodiak(&mesh, &["validate", "-f", path(&file)]);
    kodiak(&mesh, &["apply", "-f", path(&file)]);
    mesh.until_taken("backend-1", mesh.forbid()).await;
    eventually("a call that was not observed is denied", async || {
        let answer = web.call().await?;
        expect(answer.status == StatusCode::FORBIDDEN, answer)
    })
    .await;
    call(to_orders, 20).await;
    call(to_backend, 10).await;
    drop((web, orders));
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_to_a_mesh_service_are_drafted_for_the_proxies_of_its_selector() {
    let mtls = Mtls::Strict(vec![Mtls::builtin("ca-1")]);
    let Some(mesh) = Mesh::start_with(mtls, OBSERVING).await else { return };
    mesh.permit_all().await;
    mesh.set_services("Exclusive").await;
    let (_service, backend) = mesh.backend("backend-1").await;
    let ports = json!([{ "port": 80, "targetPort": backend.dataplane.inbound().port(), "appProtocol": "http" }]);
    let spec = json!({ "selector": { "dataplaneRef": { "name": "backend-1" } }, "ports": ports });
    let document = json!({ "type": "MeshService", "mesh": MESH, "name": "cart", "spec": spec });
    mesh.control_plane.put(&format!("/meshes/{MESH}/meshservices/cart"), &document).await;
    let calls_cart = |name: &str| {
        let reference = json!({ "kind": "MeshService", "name": "cart", "port": 80 });
        Dataplane::at(name, workload_address()).also_calling_ref(&reference)
    };
    let (web, other) = tokio::join!(mesh.sidecar(calls_cart("web")), mesh.sidecar(calls_cart("other")));
    until_observed(&mesh, &["web", "other"]).await;
    until_answered(web.dataplane.other(0)).await;
    let cart = "kri_msvc_shop_default__cart_".to_owned();
    let edges = until_edges(&mesh, "the edge is there", |edges| !edges.is_empty()).await;
    assert_eq!(edges.keys().collect::<Vec<_>>(), [&("web".to_owned(), cart)]);

    let drafted = kodiak(&mesh, &["permissions", "draft", "-m", MESH]);
    let text = String::from_utf8(drafted.stdout).unwrap();
    assert!(text.contains("    kind: Dataplane\n    name: backend-1\n"), "{text}");
    let file = mesh.folder().join("permissions.yaml");
    std::fs::write(&file, &text).unwrap();
    kodiak(&mesh, &["apply", "-f", path(&file)]);
    mesh.until_taken("backend-1", mesh.forbid()).await;
    eventually("the client that was not observed is denied", async || {
        let answer = get(other.dataplane.other(0), "/").await?;
        expect(answer.status == StatusCode::FORBIDDEN, answer)
    })
    .await;
    call(web.dataplane.other(0), 10).await;
}

fn path(file: &Path) -> &str {
    file.to_str().unwrap()
}

/// Calls that must succeed.
async fn call(outbound: SocketAddr, times: usize) {
    for _ in 0..times {
        get(outbound, "/").await.unwrap().fine();
    }
}

async fn observed(mesh: &Mesh) -> Value {
    mesh.control_plane.get(&format!("/meshes/{MESH}/_traffic")).await.fine().json()
}

/// Until these clients have reported, with their clusters.
async fn until_observed(mesh: &Mesh, clients: &[&str]) {
    eventually("the clients are observed", async || {
        let traffic = observed(mesh).await;
        let of = |client: &&str| {
            let all = traffic["clients"].as_array().cloned().unwrap_or_default();
            all.iter().any(|one| one["client"] == *client && one["observedSeconds"].as_u64() > Some(0))
        };
        expect(clients.iter().all(of), &traffic)
    })
    .await;
}

async fn until_edges(mesh: &Mesh, what: &str, fine: impl Fn(&Edges) -> bool) -> Edges {
    eventually(what, async || {
        let traffic = observed(mesh).await;
        let edges = traffic["edges"].as_array().cloned().unwrap_or_default();
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let edges: Edges = edges
            .iter()
            .map(|edge| ((text(&edge["client"]), text(&edge["destination"])), edge["requests"].as_u64().unwrap()))
            .collect();
        if fine(&edges) { Ok(edges) } else { Err(traffic.to_string()) }
    })
    .await
}

/// Until a record of the store has this many requests of web to orders.
async fn until_stored(mesh: &Mesh, requests: u64) {
    let stored = format!("\"orders\":[{requests},");
    eventually("the observed traffic is stored", async || {
        let backup = mesh.control_plane.get("/store/backup").await.fine();
        expect(backup.text.replace("\\\"", "\"").contains(&stored), backup.text.len())
    })
    .await;
}

#[track_caller]
fn kodiak(mesh: &Mesh, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kodiak"));
    command.args(args).args(["--cp", &format!("http://{}", mesh.control_plane.api())]);
    let output = command.env("HOME", mesh.folder()).output().unwrap();
    assert!(output.status.success(), "{args:?}: {output:?}");
    output
}
