//! Health checks of workloads by their Envoys.

use serde_json::{Value, json};

use crate::harness::{Dataplane, Door, MESH, Mesh, Mtls, Service, Sidecar, eventually, expect, workload_address};

/// A workload, its door and its proxy. The one that serves TCP is not probed.
async fn probed(mesh: &Mesh, name: &str) -> (Service, Door, Sidecar) {
    let service = Service::start(name, workload_address()).await;
    let door = Door::open(service.address).await;
    let dataplane = Dataplane::serving(name, &service).probed(door.address);
    let sidecar = mesh.sidecar(dataplane).await;
    (service, door, sidecar)
}

/// Stored state of both inbounds.
async fn states(mesh: &Mesh, name: &str) -> Vec<Value> {
    let dataplane = mesh.dataplane(name).await.json();
    let inbounds = dataplane["networking"]["inbound"].as_array().unwrap().iter();
    inbounds.map(|inbound| inbound.get("state").cloned().unwrap_or(json!("Ready"))).collect()
}

async fn until_states(mesh: &Mesh, name: &str, expected: [&str; 2]) {
    eventually(&format!("the inbounds of {name} are {expected:?}"), async || {
        let states = states(mesh, name).await;
        expect(states == expected, states)
    })
    .await;
}

/// Waits until this many calls in a row are answered by exactly these workloads.
async fn until_answered_by(client: &Sidecar, names: &[&str]) {
    eventually(&format!("{names:?} answer"), async || {
        let mut seen = std::collections::BTreeSet::new();
        for _ in 0..20 {
            let answer = client.call().await?;
            expect(answer.status.is_success(), &answer)?;
            seen.insert(answer.text);
        }
        expect(seen.iter().eq(names), seen)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn workload_is_an_endpoint_while_its_health_check_passes() {
    let Some(mesh) = Mesh::start(Mtls::Strict(vec![Mtls::builtin("ca-1")])).await else { return };
    mesh.permit_all().await;
    let ((_one, mut door, _first), (_two, mut other, second)) =
        tokio::join!(probed(&mesh, "one"), probed(&mesh, "two"));
    for name in ["one", "two"] {
        until_states(&mesh, name, ["Ready", "Ready"]).await;
    }
    let client = mesh.client().await;
    until_answered_by(&client, &["one", "two"]).await;

    door.close().await;
    until_states(&mesh, "one", ["NotReady", "Ready"]).await;
    until_answered_by(&client, &["two"]).await;
    assert_eq!(states(&mesh, "two").await, ["Ready", "Ready"]);

    door.open_again().await;
    until_states(&mesh, "one", ["Ready", "Ready"]).await;
    until_answered_by(&client, &["one", "two"]).await;

    // Where the probe is taken away, Envoy checks only itself.
    let mut document = second.dataplane.document();
    document["networking"]["inbound"][0].as_object_mut().unwrap().remove("serviceProbe");
    mesh.control_plane.put(&format!("/meshes/{MESH}/dataplanes/two"), &document).await;
    eventually("Envoy has taken the change", async || {
        let told = second.stats(r"^hds_delegate\.(errors|updates)$").await;
        expect(told == ["hds_delegate.errors: 0", "hds_delegate.updates: 2"], told)
    })
    .await;
    other.close().await;
    eventually("a call fails, as nobody looks after it", async || {
        let answer = client.call().await?;
        expect(!answer.status.is_success(), answer)
    })
    .await;
    assert_eq!(states(&mesh, "two").await, ["Ready", "Ready"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn late_workload_becomes_an_endpoint_once_healthy() {
    let Some(mesh) = Mesh::start(Mtls::Off).await else { return };
    let service = Service::start("late", workload_address()).await;
    let mut door = Door::open(service.address).await;
    door.close().await;
    let sidecar = mesh.sidecar(Dataplane::serving("late", &service).probed(door.address)).await;
    let client = mesh.start_sidecar(Dataplane::calling("client"), &[]).await;
    client.wait_until_ready().await;
    until_states(&mesh, "late", ["NotReady", "Ready"]).await;
    eventually("Envoy has checked it, and found nobody", async || {
        let failures = sidecar.stats(r"health_check\.failure").await;
        expect(failures.iter().any(|line| !line.ends_with(": 0")), failures)
    })
    .await;
    assert_eq!(states(&mesh, "late").await, ["NotReady", "Ready"]);

    door.open_again().await;
    until_answered_by(&client, &["late"]).await;
    assert_eq!(states(&mesh, "late").await, ["Ready", "Ready"]);

    // A control plane that comes back knows it, and hears of what comes next.
    let mesh = mesh.crash(async || ()).await;
    assert_eq!(states(&mesh, "late").await, ["Ready", "Ready"]);
    door.close().await;
    until_states(&mesh, "late", ["NotReady", "Ready"]).await;
}
