//! Requests through two proxies, with and without mTLS, with delta and state-of-the-world xDS.

use hyper::StatusCode;

use crate::harness::{
    Dataplane, Mesh, Mtls, Service, Sidecar, eventually, expect, get, until_answered, workload_address,
};

#[tokio::test(flavor = "multi_thread")]
async fn request_passes_two_proxies() {
    let Some(mesh) = Mesh::start(Mtls::Off).await else { return };
    check(&mesh, &[], false).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn request_passes_two_proxies_with_state_of_the_world_xds() {
    let Some(mesh) = Mesh::start(Mtls::Off).await else { return };
    check(&mesh, &["--sotw"], false).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn request_passes_two_proxies_with_mtls() {
    let Some(mesh) = Mesh::start(Mtls::Strict(vec![Mtls::builtin("ca-1")])).await else { return };
    mesh.permit_all().await;
    let (_, backend, _) = check(&mesh, &[], true).await;
    let plain = get(backend.dataplane.inbound(), "/").await;
    assert!(plain.is_err(), "who has no certificate is not let in: {plain:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn request_passes_two_proxies_with_mtls_and_state_of_the_world_xds() {
    let Some(mesh) = Mesh::start(Mtls::Strict(vec![Mtls::builtin("ca-1")])).await else { return };
    mesh.permit_all().await;
    check(&mesh, &["--sotw"], true).await;
}

/// The one who is called counts handshakes with mTLS, and without has nothing to count.
async fn check(mesh: &Mesh, flags: &[&str], mtls: bool) -> (Service, Sidecar, Sidecar) {
    let service = Service::start("backend-1", workload_address()).await;
    let backend = Dataplane::serving("backend-1", &service);
    let backend = mesh.start_sidecar(backend, flags).await;
    let client = mesh.start_sidecar(Dataplane::calling("client"), flags).await;
    let answer = until_answered(client.outbound()).await;
    assert_eq!((answer.status, answer.text.as_str()), (StatusCode::OK, "backend-1"));
    assert!(service.counted() > 0);
    eventually("the proxy that is called has taken the request", async || {
        let requests = backend.stats("http.localhost_.*downstream_rq_2xx").await;
        expect(requests.iter().any(|line| !line.ends_with(": 0")), requests)
    })
    .await;
    let handshakes = backend.stats(&format!("listener.*_{}.ssl.handshake", backend.dataplane.inbound().port())).await;
    assert_eq!(handshakes.iter().any(|line| !line.ends_with(": 0")), mtls, "{handshakes:?}");
    assert_eq!(handshakes.is_empty(), !mtls, "{handshakes:?}");
    (service, backend, client)
}
