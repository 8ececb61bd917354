//! Calls to destinations that permissions removed from the configuration of a proxy.

use std::{
    env,
    net::{Ipv4Addr, SocketAddrV4},
    process::Command,
};

use serde_json::json;

use crate::harness::{
    Answered, Dataplane, Generator, HttpVersion, MESH, Mesh, Mtls, Service, Setup, Sidecar, User, eventually, expect,
    network::{self, Machine, printed, run},
};

const TEST: &str = "trimming::explained::call_to_a_trimmed_destination_explains_itself";
/// Address of the control plane, and of the instances.
const HOST: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 1);
const PORT: u16 = 8080;
const LABEL: &str = "kodiak.io/reachability";
const EXPLAIN: &str = "KODIAK_REACHABILITY_EXPLAIN";
const REASON: &str = "x-kodiak-reason";
/// Counters of requests and connections to trimmed destinations.
const REQUESTS: &str = "^http.outbound_trimmed.downstream_rq_total$";
const CONNECTIONS: &str = "^http.outbound_trimmed.downstream_cx_total$";

#[tokio::test(flavor = "multi_thread")]
async fn call_to_a_trimmed_destination_explains_itself() {
    if !Generator::obeyed().await && network::is_inside(TEST).await {
        explains().await;
    }
}

async fn explains() {
    run("ip", &["link", "set", "lo", "up"]);
    run("ip", &["address", "add", &format!("{HOST}/32"), "dev", "lo"]);
    let setup = Setup { host: HOST, ..Setup::default() };
    let mesh = Mesh::start_with(Mtls::Strict(vec![Mtls::builtin("ca-1")]), setup).await.expect("there is an Envoy");
    network::prepare(&mesh);
    permit(&mesh, "orders", "client").await;
    permit(&mesh, "payments", "orders").await;
    permit(&mesh, "invoices", "orders").await;
    let _servers = tokio::join!(
        serving(&mesh, "orders", PORT),
        serving(&mesh, "payments", PORT + 1),
        serving(&mesh, "invoices", PORT + 2),
    );
    let machine = Machine::start(1).await;
    let user = User { machine: Some(machine.network), ..network::proxy_user(mesh.folder()) };
    let dataplane = Dataplane::listening("client", SocketAddrV4::new(machine.address, PORT)).stored();
    let client = mesh.sidecar_of(&user, dataplane, &["--transparent-proxy"]).await;
    let program = network::visible(&env::current_exe().unwrap(), &mesh.folder().join("test"));
    let mut application = Generator::start(machine.network, &program, TEST);

    // Not trimmed: the proxy of the server denies the call.
    until_answered(&mut application, "orders.mesh").await;
    let denied = application.answer(HttpVersion::Http1, "payments.mesh").await.unwrap();
    assert_eq!((denied.status, denied.text.as_str()), (403, "RBAC: access denied"));

    mesh.set_label(LABEL, "on").await;
    until_explained(&mut application, "payments.mesh").await;
    until_answered(&mut application, "orders.mesh").await;
    let requests = client.sum_of(REQUESTS).await;
    let connections = client.sum_of(CONNECTIONS).await;
    assert_eq!((requests, connections), (1, 1));
    for version in [HttpVersion::Http1, HttpVersion::Http2] {
        let answer = application.answer(version, "payments.mesh").await.unwrap();
        let Answered { status, headers, text } = &answer;
        assert_eq!((*status, headers[REASON].as_str()), (403, "unreachable"), "{answer:?}");
        assert!(
            text.contains("(host: payments.mesh)") && text.contains("kodiak why -m shop client payments.mesh"),
            "{text}"
        );
    }
    assert_eq!(client.sum_of(REQUESTS).await, 3);
    // A client that waits for the server to speak first, and one that does not speak HTTP.
    assert_eq!(application.until_closed("payments.mesh:80", "").await.unwrap(), "");
    let told = application.until_closed("payments.mesh:80", "PING").await.unwrap();
    assert!(told.contains("no outbound for"), "{told}");
    assert_eq!(client.sum_of(CONNECTIONS).await, 5);
    let why = Command::new(env!("CARGO_BIN_EXE_kodiak"))
        .args(["--cp", &format!("http://{}", mesh.control_plane.api()), "why", "-m", MESH, "client", "payments.mesh"])
        .output()
        .unwrap();
    let shown = printed(&why);
    assert_eq!(why.status.code(), Some(4), "{shown}");
    assert!(shown.contains("the outbound is trimmed, because client may not call it"), "{shown}");
    assert!(shown.contains("the proxy has refused 4 requests to trimmed destinations"), "{shown}");
    // Ports that a service does not have are explained, too; calls outside the mesh are not.
    let other_port = application.answer(HttpVersion::Http1, "orders.mesh:81").await.unwrap();
    assert!(other_port.text.contains("it has no such port"), "{other_port:?}");
    let outside = application.until_closed(&format!("{HOST}:1"), "PING").await;
    assert!(!outside.is_ok_and(|told| told.contains("no outbound for")));

    // A permission makes the destination reachable, also for a client that was told otherwise.
    permit(&mesh, "payments", "client").await;
    until_answered(&mut application, "payments.mesh").await;
    permit(&mesh, "payments", "orders").await;
    until_explained(&mut application, "payments.mesh").await;
    // The server has the permission first.
    until_explained(&mut application, "invoices.mesh").await;
    permit(&mesh, "invoices", "client").await;
    until_admitted(&mut application, "invoices.mesh").await;

    let mesh = mesh.with_environment(&[(EXPLAIN, "false")]).await;
    eventually("the name does not resolve", async || {
        let called = application.answer(HttpVersion::Http1, "payments.mesh").await;
        expect(called.as_ref().is_err_and(|error| error.contains("dns error")), called)
    })
    .await;
    until_answered(&mut application, "orders.mesh").await;
    drop(mesh);
}

/// Lets one service call another one, and nobody else.
async fn permit(mesh: &Mesh, service: &str, caller: &str) {
    let from = json!([{ "targetRef": { "kind": "MeshService", "name": caller }, "default": { "action": "Allow" } }]);
    let spec = json!({ "targetRef": { "kind": "MeshService", "name": service }, "from": from });
    mesh.put("MeshTrafficPermission", service, &spec).await;
}

async fn serving(mesh: &Mesh, service: &str, port: u16) -> (Service, Sidecar) {
    let instance = SocketAddrV4::new(HOST, port);
    mesh.serving(service, |workload| Dataplane::serving_at(service, service, instance, workload)).await
}

async fn until_answered(application: &mut Generator, target: &str) {
    eventually(&format!("{target} answers"), async || application.try_once(target).await).await;
}

/// Until the server answers. It has the permission before the client has the destination, so it denies no call of a client
/// that has no connection to it.
async fn until_admitted(application: &mut Generator, target: &str) {
    eventually(&format!("{target} admits the client"), async || {
        let answer = application.answer(HttpVersion::Http1, target).await?;
        let is_explained = answer.headers.contains_key(REASON);
        assert!(answer.status == 200 || is_explained, "denied by the server: {answer:?}");
        expect(!is_explained, answer)
    })
    .await;
}

/// Until the proxy of the client answers, which may still have the destination for a moment.
async fn until_explained(application: &mut Generator, target: &str) {
    eventually(&format!("the proxy explains that {target} is unreachable"), async || {
        let answer = application.answer(HttpVersion::Http1, target).await?;
        expect(answer.headers.contains_key(REASON), answer)
    })
    .await;
}
