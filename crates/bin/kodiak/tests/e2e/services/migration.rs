//! Migration from kuma.io/service tags to MeshServices and its rollback, under load.

use std::{
    env,
    net::{Ipv4Addr, SocketAddrV4},
};

use serde_json::json;

use super::{Consumer, Table, until_service};
use crate::harness::{
    Dataplane, Generator, Mesh, Mtls, Service, Setup, Sidecar, eventually, expect,
    network::{self, run},
};

const TEST: &str = "services::migration::migrates_to_mesh_services_and_back_under_load";
/// Address of the control plane for proxies.
const HOST: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 1);
const PORT: u16 = 8080;
const OLD_NAME: &str = "backend.mesh:80";
const NEW_NAME: &str = "backend.svc.mesh.local:8080";
const OLD_CLUSTER: &str = "backend";
const NEW_CLUSTER: &str = "backend__default_shop_msvc_8080";
/// Long enough for consumers to go back to the old names.
const SETTINGS: &[&str] = &["meshService.disableGracePeriod=20s"];

#[tokio::test(flavor = "multi_thread")]
async fn migrates_to_mesh_services_and_back_under_load() {
    if !Generator::obeyed().await && network::is_inside(TEST).await {
        move_and_return().await;
    }
}

async fn move_and_return() {
    run("ip", &["link", "set", "lo", "up"]);
    for last in [1, 11, 12, 21] {
        run("ip", &["address", "add", &format!("10.9.0.{last}/32"), "dev", "lo"]);
    }
    let setup = Setup { host: HOST, settings: SETTINGS, ..Setup::default() };
    let mtls = Mtls::Strict(vec![Mtls::builtin("ca-1")]);
    let mut mesh = Mesh::start_with(mtls, setup).await.expect("there is an Envoy");
    network::prepare(&mesh);
    mesh.permit_all().await;
    let user = network::proxy_user(mesh.folder());
    let program = network::visible(&env::current_exe().unwrap(), &mesh.folder().join("test"));
    let _backends =
        tokio::join!(serving(&mesh, "backend", "backend-1", 11), serving(&mesh, "backend", "backend-2", 12));
    let (extra, extra_sidecar) = serving(&mesh, "extra", "extra-1", 21).await;
    let consumer = async |name, number| Consumer::start(&mesh, &user, name, number, &program, TEST).await;
    let (mut old, mut new) = tokio::join!(consumer("old", 1), consumer("new", 2));
    let mut table = Table::default();

    // 1: legacy services only.
    for consumer in [&mut old, &mut new] {
        consumer.application.call(OLD_NAME).await;
        consumer.calls(OLD_CLUSTER, None).await;
        assert_eq!(consumer.objects().await, [""; 0]);
    }
    assert_eq!(mesh.mesh_service("backend").await, None);
    table.row("1 Disabled", [&mut old, &mut new]).await;

    // 2: MeshServices next to legacy services.
    mesh.set_services("Everywhere").await;
    let address = until_service(&mesh, "backend", "Available").await;
    assert!(address.starts_with("241."), "{address}");
    for consumer in [&mut old, &mut new] {
        consumer.until_has(NEW_CLUSTER).await;
        consumer.calls(OLD_CLUSTER, Some(NEW_CLUSTER)).await;
    }
    table.row("2 Everywhere, old names", [&mut old, &mut new]).await;
    new.application.call(NEW_NAME).await;
    new.calls(NEW_CLUSTER, Some(OLD_CLUSTER)).await;
    old.calls(OLD_CLUSTER, Some(NEW_CLUSTER)).await;
    table.row("2 Everywhere, one uses the new name", [&mut old, &mut new]).await;

    // 3: MeshServices only for proxies that list them.
    new.reach(&mesh, &json!([{ "kind": "MeshService", "name": "backend" }])).await;
    new.until_listeners(1).await;
    mesh.set_services("ReachableBackends").await;
    old.until_objects(&[]).await;
    new.until_objects(&[NEW_CLUSTER]).await;
    new.calls(NEW_CLUSTER, Some(OLD_CLUSTER)).await;
    old.calls(OLD_CLUSTER, None).await;
    table.row("3 ReachableBackends for one", [&mut old, &mut new]).await;

    // 4: the control plane is down for a while.
    mesh = mesh
        .crash(async || {
            old.calls(OLD_CLUSTER, None).await;
            new.calls(NEW_CLUSTER, None).await;
        })
        .await;
    eventually("all proxies are back", async || {
        let proxies = mesh.control_plane.metric("kodiak_xds_proxies").await;
        expect(proxies == 5, proxies)
    })
    .await;
    old.calls(OLD_CLUSTER, None).await;
    new.calls(NEW_CLUSTER, Some(OLD_CLUSTER)).await;
    assert_eq!(until_service(&mesh, "backend", "Available").await, address);
    table.row("4 kill -9 of the control plane", [&mut old, &mut new]).await;

    // 5: legacy services are removed once unused.
    mesh.set_services("Everywhere").await;
    old.application.call(NEW_NAME).await;
    old.calls(NEW_CLUSTER, Some(OLD_CLUSTER)).await;
    table.row("5 Everywhere, both use the new name", [&mut old, &mut new]).await;
    mesh.set_services("Exclusive").await;
    for consumer in [&mut old, &mut new] {
        consumer.until_without(&["backend", "extra", "old", "new"]).await;
        consumer.calls(NEW_CLUSTER, None).await;
    }
    table.row("5 Exclusive", [&mut old, &mut new]).await;

    // 6: a service without proxies still exists.
    let extra_address = until_service(&mesh, "extra", "Available").await;
    until_answered(&mut old, "extra.svc.mesh.local:8080").await;
    extra_sidecar.terminate();
    extra_sidecar.ended().await;
    assert_eq!(until_service(&mesh, "extra", "Unavailable").await, extra_address);
    old.application.try_once("extra.svc.mesh.local:8080").await.expect_err("nobody serves it");
    let _extra_sidecar = mesh.sidecar(instance("extra", "extra-1", 21, &extra)).await;
    assert_eq!(until_service(&mesh, "extra", "Available").await, extra_address);
    until_answered(&mut old, "extra.svc.mesh.local:8080").await;
    table.row("6 another service without proxies, and back", [&mut old, &mut new]).await;

    // 7: rollback in one step.
    mesh.set_services("Disabled").await;
    for consumer in [&mut old, &mut new] {
        consumer.application.call(OLD_NAME).await;
        consumer.calls(OLD_CLUSTER, Some(NEW_CLUSTER)).await;
    }
    table.row("7 Disabled, old names again", [&mut old, &mut new]).await;
    eventually("no MeshService is left", async || {
        let left = mesh.control_plane.get("/meshservices").await.fine().json();
        expect(left["total"] == 0, left)
    })
    .await;
    for consumer in [&mut old, &mut new] {
        consumer.until_listeners(0).await;
        consumer.until_objects(&[]).await;
        consumer.calls(OLD_CLUSTER, None).await;
    }
    table.row("7 Disabled, nothing is left", [&mut old, &mut new]).await;
    table.end();
}

async fn serving(mesh: &Mesh, service: &str, name: &str, last: u8) -> (Service, Sidecar) {
    mesh.serving(name, |workload| instance(service, name, last, workload)).await
}

/// All instances of a service serve it at one port.
fn instance(service: &str, name: &str, last: u8, workload: &Service) -> Dataplane {
    Dataplane::serving_at(service, name, SocketAddrV4::new(Ipv4Addr::new(10, 9, 0, last), PORT), workload)
}

async fn until_answered(consumer: &mut Consumer, target: &str) {
    eventually(&format!("{target} answers"), async || consumer.application.try_once(target).await).await;
}
