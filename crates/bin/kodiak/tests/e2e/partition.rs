//! Packet loss and then a partition between proxies and their control plane. Between proxies, no request fails.

use std::net::Ipv4Addr;

use crate::harness::{
    Dataplane, Load, Loss, Mesh, Mtls, Setup, Sidecar,
    cluster::{change, until_calls, until_changed},
    eventually, expect,
    network::{self, run},
};

const TEST: &str = "partition::packet_loss_and_partition_do_not_affect_requests";
/// Address of the control plane for proxies.
const HOST: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 1);
/// The delay that is the default; other tests want to see proxies go soon.
const SETTINGS: &[&str] = &["xdsServer.dataplaneDeregistrationDelaySeconds=10"];
/// Each caller sends one every 15 ms: 25 seconds, which is within the 30 that docs/operations/failures.md promises.
const WITHIN_GRACE: u64 = 1650;
/// Anything that Envoy was sent and took.
const TAKEN: &str = "(cds|lds|eds|rds|sds).*update_success$";

#[tokio::test(flavor = "multi_thread")]
async fn packet_loss_and_partition_do_not_affect_requests() {
    if network::is_inside(TEST).await {
        lose_packets().await;
    }
}

async fn lose_packets() {
    run("ip", &["link", "set", "lo", "up"]);
    run("ip", &["address", "add", &format!("{HOST}/32"), "dev", "lo"]);
    let setup = Setup { host: HOST, settings: SETTINGS, ..Setup::default() };
    let mtls = Mtls::Strict(vec![Mtls::builtin("ca-1")]);
    let mesh = Mesh::start_with(mtls, setup).await.expect("there is an Envoy");
    mesh.permit_all().await;
    change(&mesh, 31).await;
    let (_one, first) = mesh.backend("backend-1").await;
    let (_two, second) = mesh.backend("backend-2").await;
    let client = mesh.client_as(Dataplane::calling("client")).await;
    for backend in [&first, &second] {
        until_calls(&client, backend.dataplane.inbound()).await;
    }
    until_changed(&client, 31).await;
    let load = Load::on(&client);
    let (loss, ports) = (Loss::none(), [mesh.control_plane.proxy_port()]);

    // A fifth of all packets is lost: changes arrive nevertheless.
    loss.of(20, &ports);
    for seconds in [32, 33] {
        change(&mesh, seconds).await;
        until_changed(&client, seconds).await;
    }
    loss.heal();
    settled(&mesh).await;
    let sent = mesh.control_plane.metric("kodiak_xds_sent_bytes_total").await;
    let before = [taken(&client).await, taken(&first).await, taken(&second).await];

    // Partition, for as long as nothing may change.
    loss.of(100, &ports);
    load.go_on(WITHIN_GRACE).await;
    let dataplanes = mesh.control_plane.get("/meshes/shop/dataplanes").await.fine().json();
    assert_eq!(dataplanes["total"], 3, "no Dataplane is removed: {dataplanes}");
    loss.heal();
    eventually("all proxies are connected", async || {
        let proxies = mesh.control_plane.metric("kodiak_xds_proxies").await;
        expect(proxies == 3, proxies)
    })
    .await;
    load.go_on(100).await;
    settled(&mesh).await;
    assert_eq!(
        [taken(&client).await, taken(&first).await, taken(&second).await],
        before,
        "Envoy was sent nothing again"
    );
    let again = mesh.control_plane.metric("kodiak_xds_sent_bytes_total").await - sent;
    assert_eq!(again, 0, "bytes that were sent again");
    for backend in [&first, &second] {
        until_calls(&client, backend.dataplane.inbound()).await;
    }

    // The next change arrives.
    change(&mesh, 34).await;
    until_changed(&client, 34).await;
    load.end().await;
}

/// Until every proxy has acknowledged all that was sent.
async fn settled(mesh: &Mesh) {
    for proxy in ["client", "backend-1", "backend-2"] {
        eventually(&format!("{proxy} has all"), async || {
            let status = mesh.control_plane.get(&format!("/meshes/shop/dataplanes/{proxy}/_status")).await.json();
            expect(status["published"].is_u64() && status["published"] == status["settled"], status)
        })
        .await;
    }
}

async fn taken(sidecar: &Sidecar) -> Vec<String> {
    sidecar.stats(TAKEN).await
}
