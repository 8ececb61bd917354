//! MeshPassthrough: destinations outside the mesh that an application reaches, and those that its proxy refuses.

use std::{
    env, fs,
    net::{Ipv4Addr, SocketAddr, SocketAddrV4},
};

use serde_json::{Value, json};
use tokio::{io::AsyncWriteExt as _, net::TcpListener, task::JoinSet};

use crate::harness::{
    Answered, Dataplane, Generator, HttpVersion, Mesh, Mtls, Service, Setup, Sidecar, Tls, User, eventually, expect,
    network::{self, Machine, run},
};

const TEST: &str = "policies::passthrough::only_matched_destinations_outside_the_mesh_are_reached";
/// Address of the control plane, of a service of the mesh, and of all servers outside of it.
const HOST: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 1);
const PORT: u16 = 8080;
/// Hostnames of the servers outside the mesh.
const ALLOWED: &str = "allowed.example";
const SUBDOMAIN: &str = "api.allowed.example";
const REFUSED: &str = "refused.example";
/// Sent by the server first.
const GREETING: &str = "hello";

#[tokio::test(flavor = "multi_thread")]
async fn only_matched_destinations_outside_the_mesh_are_reached() {
    if !Generator::obeyed().await && network::is_inside(TEST).await {
        reaches().await;
    }
}

async fn reaches() {
    run("ip", &["link", "set", "lo", "up"]);
    run("ip", &["address", "add", &format!("{HOST}/32"), "dev", "lo"]);
    let setup = Setup { host: HOST, ..Setup::default() };
    let mesh = Mesh::start_with(Mtls::Off, setup).await.expect("there is an Envoy");
    network::prepare(&mesh);
    let outside = Outside::start(&mesh).await;
    let inside = SocketAddrV4::new(HOST, PORT);
    let serving = mesh.serving("orders", |workload| Dataplane::serving_at("orders", "orders", inside, workload));
    let (_orders, _sidecar) = serving.await;
    let machine = Machine::start(1).await;
    let user = User { machine: Some(machine.network), ..network::proxy_user(mesh.folder()) };
    let dataplane = Dataplane::listening("client", SocketAddrV4::new(machine.address, PORT)).stored();
    let mut client = mesh.sidecar_of(&user, dataplane, &["--transparent-proxy"]).await;
    let program = network::visible(&env::current_exe().unwrap(), &mesh.folder().join("test"));
    let mut application = Generator::start(machine.network, &program, TEST);

    // Without a policy all of them are reached.
    let allowed = format!("{ALLOWED}:{}", outside.http.port());
    let refused = format!("{REFUSED}:{}", outside.http.port());
    application.call(&allowed).await;
    eventually("destinations outside the mesh are reached", async || {
        application.try_once(&refused).await.map(drop)
    })
    .await;
    for (sni, port) in [(SUBDOMAIN, outside.tls), (REFUSED, outside.tls)] {
        outside.check_tls(&mut application, port, sni).await.unwrap();
    }

    // Calls to a destination that stays reachable do not fail.
    mesh.put("MeshPassthrough", "outside", &matched(&outside)).await;
    until_refused(&mut application, &refused).await;
    application.go_on(50).await;
    for version in [HttpVersion::Http1, HttpVersion::Http2] {
        let Answered { status, text, .. } = application.answer(version, &allowed).await.unwrap();
        assert_eq!((status, text.as_str()), (200, "outside"));
        let Answered { status, headers, text } = application.answer(version, &refused).await.unwrap();
        assert_eq!((status, headers["x-kodiak-reason"].as_str()), (403, "passthrough"));
        assert!(text.contains(&format!("requests to {} (host: {refused})", outside.http)), "{text}");
    }
    until_logged(&mut client, &format!("{} host={refused}: no MeshPassthrough match", outside.http)).await;

    outside.check_tls(&mut application, outside.tls, SUBDOMAIN).await.unwrap();
    outside.check_tls(&mut application, outside.tls, REFUSED).await.unwrap_err();
    until_logged(&mut client, &format!("{} sni={REFUSED}: no MeshPassthrough match", outside.tls)).await;

    // By address: whatever the client sends, and also where the server sends first.
    let called = application.try_once(&format!("{REFUSED}:{}", outside.tcp.port())).await;
    assert_eq!(called.as_deref(), Ok("outside"));
    let greeting = application.until_closed(&outside.server_first.to_string(), "").await;
    assert_eq!(greeting.as_deref(), Ok(GREETING));
    let closed = application.until_closed(&outside.other.to_string(), "GET / HTTP/1.0\r\n\r").await;
    assert!(closed.as_ref().is_ok_and(String::is_empty) || closed.is_err(), "{closed:?}");
    until_logged(&mut client, &format!("{} sni=-: no MeshPassthrough match", outside.other)).await;

    // Destinations of the mesh are not concerned.
    application.try_once("orders.mesh").await.unwrap();
    let counts = application.counted().await;
    assert_eq!(counts.failed, 0, "{counts:?}");

    mesh.put("MeshPassthrough", "outside", &json!({ "default": { "passthroughMode": "All" } })).await;
    eventually("all destinations are reached again", async || application.try_once(&refused).await.map(drop)).await;
    application.go_on(50).await;
    let counts = application.counted().await;
    assert_eq!(counts.failed, 0, "{counts:?}");

    mesh.put("MeshPassthrough", "outside", &json!({ "default": { "passthroughMode": "None" } })).await;
    eventually("no destination is reached", async || {
        let called = application.try_once(&refused).await;
        expect(called.is_err(), called)
    })
    .await;
    until_logged(&mut client, &format!("{} sni=-: MeshPassthrough has mode None", outside.http)).await;
    application.try_once("orders.mesh").await.unwrap();
}

/// Servers that do not belong to the mesh, at ports of one address.
struct Outside {
    http: SocketAddr,
    tcp: SocketAddr,
    tls: SocketAddr,
    server_first: SocketAddr,
    /// No policy matches it.
    other: SocketAddr,
    authorities: [(&'static str, std::path::PathBuf); 2],
    _servers: (Service, Service, Vec<Tls>, JoinSet<()>),
}

impl Outside {
    async fn start(mesh: &Mesh) -> Self {
        let hosts = mesh.folder().join("hosts");
        fs::write(&hosts, format!("{HOST} {ALLOWED} {SUBDOMAIN} {REFUSED}\n")).unwrap();
        run("mount", &["--bind", hosts.to_str().unwrap(), "/etc/hosts"]);
        let (service, other) = (Service::start("outside", HOST).await, Service::start("other", HOST).await);
        todo!()
    }
}
