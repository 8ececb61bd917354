//! Instances end under load, with no MeshRetry that would hide a failed request: started by `kodiak dp run`, and by a runner
//! that behaves like kuma-dp.

use std::time::Duration;

use hyper::StatusCode;
use serde_json::json;

use crate::harness::{
    Dataplane, Load, Mesh, Mtls, Service, StockSidecar, eventually, expect, until_answered, workload_address,
};

/// More than Envoy needs to report that it drains, and the control plane to remove the endpoint.
const DRAIN_TIME: Duration = Duration::from_secs(10);

#[derive(Debug, Clone, Copy)]
enum Mode {
    /// `kodiak dp run` notifies the control plane.
    Notified,
    /// SIGTERM of kuma-dp: Envoy fails its health checks.
    Terminated,
    /// SIGUSR2 of kuma-dp, then SIGTERM: inbound listeners drain first.
    ListenersFirst,
}

#[tokio::test(flavor = "multi_thread")]
async fn proxy_that_notifies_the_control_plane_ends_without_a_failed_request() {
    end_under_load(Mode::Notified).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn stock_proxy_ends_without_a_failed_request() {
    end_under_load(Mode::Terminated).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn stock_proxy_that_drains_its_listeners_ends_without_a_failed_request() {
    end_under_load(Mode::ListenersFirst).await;
}

async fn end_under_load(mode: Mode) {
    let Some(mesh) = Mesh::start(Mtls::Strict(vec![Mtls::builtin("ca-1")])).await else { return };
    mesh.permit_all().await;
    let (_stays, _sidecar) = mesh.backend("stays").await;
    let goes = Service::start("goes", workload_address()).await;
    let dataplane = Dataplane::serving("goes", &goes);
    let load = match mode {
        Mode::Notified => {
            let sidecar = mesh.sidecar(dataplane).await;
            let (client, load) = under_load(&mesh, &goes).await;
            sidecar.terminate();
            let (status, printed) = sidecar.ended().await;
            assert!(status.success(), "{printed}");
            (client, load)
        }
        Mode::Terminated | Mode::ListenersFirst => {
            let sidecar = StockSidecar::run(&mesh, &dataplane).await;
            let (client, load) = under_load(&mesh, &goes).await;
            if matches!(mode, Mode::ListenersFirst) {
                sidecar.drain_listeners().await;
                load.go_on(50).await;
            }
            sidecar.end(DRAIN_TIME).await;
            (client, load)
        }
    };
    let (_client, load) = load;
    let after = goes.counted();
    load.go_on(100).await;
    let (answered, failed, failures) = load.counted();
    println!("{mode:?}: {answered} requests answered, {failed} failed");
    assert_eq!(failed, 0, "{failures:?}");
    load.end().await;
    assert_eq!(goes.counted(), after, "the one that went is not called any more");
    eventually("the Dataplane of the one that went is gone", async || {
        let answer = mesh.dataplane("goes").await;
        expect(answer.status == StatusCode::NOT_FOUND, answer)
    })
    .await;
}

/// A client under load, once both instances are called.
async fn under_load(mesh: &Mesh, goes: &Service) -> (crate::harness::Sidecar, Load) {
    let client = mesh.client().await;
    let load = Load::on(&client);
    eventually("both are called", async || expect(goes.counted() > 100, ())).await;
    (client, load)
}

#[tokio::test(flavor = "multi_thread")]
async fn stored_dataplane_serves_again_after_a_stock_proxy_was_replaced() {
    let Some(mesh) = Mesh::start(Mtls::Off).await else { return };
    let service = Service::start("backend-1", workload_address()).await;
    let dataplane = Dataplane::serving("backend-1", &service).stored();
    mesh.store(&dataplane).await;
    let first = StockSidecar::run(&mesh, &dataplane).await;
    let client = mesh.client().await;

    // An Envoy that fails its health checks is no endpoint, and is one again when it passes them.
    first.fail_health_checks().await;
    until_states(&mesh, "NotReady").await;
    first.healthy_again().await;
    until_states(&mesh, "Ready").await;

    first.fail_health_checks().await;
    until_states(&mesh, "NotReady").await;
    first.kill();
    // The control plane does not remember the states; they are in the store.
    let mesh = mesh.crash(async || ()).await;
    until_states(&mesh, "NotReady").await;
    let _second = StockSidecar::run(&mesh, &dataplane).await;
    until_states(&mesh, "Ready").await;
    until_answered(client.outbound()).await;
}

async fn until_states(mesh: &Mesh, expected: &str) {
    eventually(&format!("the inbounds are {expected}"), async || {
        let dataplane = mesh.dataplane("backend-1").await.json();
        let inbounds = dataplane["networking"]["inbound"].as_array().unwrap().iter();
        let states: Vec<_> = inbounds.map(|inbound| inbound.get("state").cloned().unwrap_or(json!("Ready"))).collect();
        expect(states == [expected, expected], states)
    })
    .await;
}
