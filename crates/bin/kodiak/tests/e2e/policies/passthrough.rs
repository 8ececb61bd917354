//! MeshPassthrough: destinations outside the mesh that an application reaches, and those that its proxy refuses.

use std::{
    env, fs,
    net::{Ipv4Addr, SocketAddr, SocketAddrV4},
    path::PathBuf,
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
/// Counter of connections outside the mesh, without a policy.
const OPENED: &str = "^cluster.outbound_passthrough_ipv4.upstream_cx_total$";
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
    eventually("destinations outside the mesh are reached", async || application.try_once(&refused).await.map(drop))
        .await;
    let encrypted = application.over_tls(outside.tls, SUBDOMAIN, &outside.ca).await.unwrap();
    assert!(encrypted.ends_with("outside"), "{encrypted}");
    // The server answers, with a certificate for another name.
    let other_name = application.over_tls(outside.tls, REFUSED, &outside.ca).await.unwrap_err();
    assert!(other_name.contains("certificate"), "{other_name}");

    // A connection from before the policy, to a destination that becomes unreachable.
    let mut other_application = Generator::start(machine.network, &program, TEST);
    let (other, before) = (outside.other.to_string(), client.sum_of(OPENED).await);
    let open = tokio::spawn(async move { other_application.until_closed(&other, "").await });
    eventually("the connection is open", async || {
        let opened = client.sum_of(OPENED).await;
        expect(opened > before, opened)
    })
    .await;

    // Calls to a destination that stays reachable do not fail. They end before the drain time of the old listener does:
    // what it carries as bytes cannot be closed between two requests.
    let mut load = Generator::start(machine.network, &program, TEST);
    load.call(&allowed).await;
    mesh.put("MeshPassthrough", "outside", &outside.matched()).await;
    until_refused(&mut application, &refused).await;
    all_answered(&mut load).await;
    drop(load);
    for version in [HttpVersion::Http1, HttpVersion::Http2] {
        let Answered { status, text, .. } = application.answer(version, &allowed).await.unwrap();
        assert_eq!((status, text.as_str()), (200, "outside"));
        let Answered { status, headers, text } = application.answer(version, &refused).await.unwrap();
        assert_eq!((status, headers["x-kodiak-reason"].as_str()), (403, "passthrough"));
        assert!(text.contains(&format!("requests to {} (host: {refused})", outside.http)), "{text}");
    }
    until_logged(&mut client, &format!("{} host={refused}: no MeshPassthrough match", outside.http)).await;

    let encrypted = application.over_tls(outside.tls, SUBDOMAIN, &outside.ca).await.unwrap();
    assert!(encrypted.ends_with("outside"), "{encrypted}");
    let closed = application.over_tls(outside.tls, REFUSED, &outside.ca).await.unwrap_err();
    assert!(!closed.contains("certificate"), "{closed}");
    until_logged(&mut client, &format!("{} sni={REFUSED}: no MeshPassthrough match", outside.tls)).await;

    // By address: whatever the client sends, and also where the server sends first.
    let called = application.try_once(&format!("{REFUSED}:{}", outside.tcp.port())).await;
    assert_eq!(called.as_deref(), Ok("outside"));
    let greeting = application.until_closed(&outside.server_first.to_string(), "").await;
    assert_eq!(greeting.as_deref(), Ok(GREETING));
    let closed = application.until_closed(&outside.other.to_string(), "PING").await;
    assert!(closed.as_ref().is_ok_and(String::is_empty) || closed.is_err(), "{closed:?}");
    until_logged(&mut client, &format!("{} sni=-: no MeshPassthrough match", outside.other)).await;

    // Destinations of the mesh are not concerned.
    application.try_once("orders.mesh").await.unwrap();
    let closed = open.await.unwrap();
    assert_eq!(closed.as_deref(), Ok(""));

    let mut load = Generator::start(machine.network, &program, TEST);
    load.call(&allowed).await;
    mesh.put("MeshPassthrough", "outside", &json!({ "default": { "passthroughMode": "All" } })).await;
    eventually("all destinations are reached again", async || application.try_once(&refused).await.map(drop)).await;
    all_answered(&mut load).await;
    drop(load);

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
    /// File with the CA of the TLS server.
    ca: PathBuf,
    _servers: (Service, Service, Tls, JoinSet<()>),
}

impl Outside {
    async fn start(mesh: &Mesh) -> Self {
        let hosts = mesh.folder().join("hosts");
        fs::write(&hosts, format!("{HOST} {ALLOWED} {SUBDOMAIN} {REFUSED}\n")).unwrap();
        run("mount", &["--bind", hosts.to_str().unwrap(), "/etc/hosts"]);
        let (service, other) = (Service::start("outside", HOST).await, Service::start("other", HOST).await);
        let tls = Tls::start_at(HOST, SUBDOMAIN, service.address).await;
        let ca = mesh.folder().join("outside.pem");
        fs::write(&ca, &tls.authority).unwrap();
        let listener = TcpListener::bind((HOST, 0)).await.unwrap();
        let server_first = listener.local_addr().unwrap();
        let mut greeting = JoinSet::new();
        greeting.spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                // A client that is gone needs no greeting.
                let _ = stream.write_all(GREETING.as_bytes()).await;
            }
        });
        Self {
            http: service.address,
            tcp: service.address_tcp,
            tls: tls.address,
            server_first,
            other: other.address,
            ca,
            _servers: (service, other, tls, greeting),
        }
    }

    fn matched(&self) -> Value {
        let item = |kind: &str, value: &str, at: SocketAddr, protocol: &str| json!({ "type": kind, "value": value, "port": at.port(), "protocol": protocol });
        let matches = [
            item("Domain", ALLOWED, self.http, "http"),
            item("Domain", &format!("*.{ALLOWED}"), self.tls, "tls"),
            item("CIDR", &format!("{HOST}/16"), self.tcp, "tcp"),
            item("IP", &HOST.to_string(), self.server_first, "mysql"),
        ];
        json!({ "targetRef": { "kind": "Dataplane", "name": "client" }, "default": { "appendMatch": matches } })
    }
}

/// Of many more calls, and of those before.
async fn all_answered(load: &mut Generator) {
    load.go_on(50).await;
    let counts = load.counted().await;
    assert_eq!(counts.failed, 0, "{counts:?}");
}

async fn until_refused(application: &mut Generator, target: &str) {
    eventually(&format!("the proxy refuses requests to {target}"), async || {
        let answer = application.answer(HttpVersion::Http1, target).await?;
        expect(answer.status == 403, answer)
    })
    .await;
}

async fn until_logged(client: &mut Sidecar, text: &str) {
    let line = format!("passthrough refused: {text}");
    eventually(&format!("{line:?} is logged"), async || {
        client.process().line(&line).map(drop).ok_or_else(|| client.process().printed())
    })
    .await;
}
