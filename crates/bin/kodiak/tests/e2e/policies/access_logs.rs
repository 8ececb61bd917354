//! MeshAccessLog: real requests in files, at TCP servers and at an OpenTelemetry collector.

use std::{collections::BTreeSet, fs, net::SocketAddr, path::Path};

use hyper::StatusCode;
use kodiak_testkit::otlp::Otlp;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    net::{TcpListener, TcpStream},
    sync::mpsc,
    task::JoinSet,
};

use super::{to_backend, until_status};
use crate::harness::{Dataplane, Mesh, Mtls, Sidecar, eventually, expect, get, until_answered, workload_address};

/// Lines of JSON with these keys.
fn format(fields: &[(&str, &str)]) -> Value {
    let fields: Vec<_> = fields.iter().map(|(key, value)| json!({ "key": key, "value": value })).collect();
    json!({ "type": "Json", "json": fields })
}

fn file(path: &Path, format: &Value) -> Value {
    json!({ "backends": [{ "type": "File", "file": { "path": path, "format": format } }] })
}

fn read(path: &Path) -> Vec<Value> {
    let text = fs::read_to_string(path).unwrap_or_default();
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

/// Calls this path until a line for it is logged.
async fn until_logged(outbound: SocketAddr, path: &str, log: &Path) -> Value {
    eventually(&format!("{path} is logged in {}", log.display()), async || {
        get(outbound, path).await?;
        let lines = read(log);
        lines.iter().find(|line| line["path"] == path).cloned().ok_or_else(|| format!("{lines:?}"))
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn files_have_source_and_destination() {
    let Some(mesh) = Mesh::start(Mtls::Strict(vec![Mtls::builtin("ca")])).await else { return };
    mesh.permit_all().await;
    let (_service, backend) = mesh.backend("backend-1").await;
    let client = mesh.client().await;
    let fields = format(&[
        ("source", "%KUMA_SOURCE_SERVICE%"),
        ("destination", "%KUMA_DESTINATION_SERVICE%"),
        ("address", "%KUMA_SOURCE_ADDRESS_WITHOUT_PORT%"),
        ("direction", "%KUMA_TRAFFIC_DIRECTION%"),
        ("mesh", "%KUMA_MESH%"),
        ("path", "%REQ(:PATH)%"),
    ]);
    let (outbound, inbound, others) =
        ["outbound", "inbound", "others"].map(|name| mesh.folder().join(format!("{name}.log"))).into();
    mesh.put("MeshAccessLog", "outbound", &to_backend(&file(&outbound, &fields))).await;
    let id = |name: &str| json!([{ "spiffeID": { "type": "Exact", "value": format!("spiffe://shop/{name}") } }]);
    let rules = json!({ "rules": [
        { "matches": id("client"), "default": file(&inbound, &fields) },
        { "matches": id("other"), "default": file(&others, &fields) },
    ] });
    mesh.put("MeshAccessLog", "inbound", &rules).await;

    let line = |source: &str, direction: &str, path: &str| {
        let address = client.dataplane.address.to_string();
        json!({
            "source": source, "destination": "backend", "address": address, "direction": direction, "mesh": "shop",
            "path": path,
        })
    };
    let sent = until_logged(client.outbound(), "/sent", &outbound).await;
    assert_eq!(sent, line("client", "OUTBOUND", "/sent"));
    let mut received = until_logged(client.outbound(), "/received", &inbound).await;
    // Any address of the loopback may be the source.
    received["address"] = json!(client.dataplane.address);
    assert_eq!(received, line("spiffe://shop/client", "INBOUND", "/received"));
    assert_eq!(read(&others), [""; 0], "{}", backend.dataplane.name);
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_of_a_route_are_logged_only_by_its_policy() {
    let Some(mesh) = Mesh::start(Mtls::Off).await else { return };
    mesh.set_services("Exclusive").await;
    let (_service, backend) = mesh.backend("backend-1").await;
    let reference = json!({ "kind": "MeshService", "name": "backend", "port": backend.dataplane.inbound().port() });
    let client = mesh.sidecar(Dataplane::at("client", workload_address()).also_calling_ref(&reference)).await;
    let outbound = client.dataplane.other(0);
    until_answered(outbound).await;
    let matches = json!([{ "path": { "type": "PathPrefix", "value": "/slow" } }]);
    let backend = json!({ "kind": "MeshService", "name": "backend" });
    let route = json!({ "to": [{ "targetRef": backend, "rules": [{ "matches": matches, "default": {} }] }] });
    mesh.put("MeshHTTPRoute", "slow", &route).await;
    let (all, slow) = ["all", "slow"].map(|name| mesh.folder().join(format!("{name}.log"))).into();
    let fields = format(&[("path", "%REQ(:PATH)%")]);
    let to = json!({ "to": [
        { "targetRef": { "kind": "Mesh" }, "default": file(&all, &fields) },
        { "targetRef": { "kind": "MeshHTTPRoute", "name": "slow" }, "default": file(&slow, &fields) },
    ] });
    mesh.put("MeshAccessLog", "logs", &to).await;
    until_logged(outbound, "/slow/start", &slow).await;
    // From here on the route has its own logs.
    get(outbound, "/slow/1").await.unwrap();
    until_logged(outbound, "/fast", &all).await;
    until_logged(outbound, "/slow/2", &slow).await;
    let paths = |log: &Path| read(log).iter().map(|line| line["path"].as_str().unwrap().to_owned()).collect();
    let (all, slow): (BTreeSet<String>, BTreeSet<String>) = (paths(&all), paths(&slow));
    assert!(!all.contains("/slow/1") && !all.contains("/slow/2") && !slow.contains("/fast"), "{all:?} {slow:?}");
}

/// A TCP server that passes its lines on. Dropping it closes its connections.
struct Lines {
    address: SocketAddr,
    received: mpsc::UnboundedReceiver<String>,
    _server: JoinSet<()>,
}

impl Lines {
    async fn listen(address: &str) -> Self {
        let listener = TcpListener::bind(address).await.unwrap();
        let address = listener.local_addr().unwrap();
        let (sender, received) = mpsc::unbounded_channel();
        let mut server = JoinSet::new();
        server.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                connections.spawn(pass_on(stream, sender.clone()));
            }
        });
        Self { address, received, _server: server }
    }

    async fn until(&mut self, line: &str) -> usize {
        let mut count = 1;
        while self.received.recv().await.unwrap() != line {
            count += 1;
        }
        count
    }
}

async fn pass_on(stream: TcpStream, sender: mpsc::UnboundedSender<String>) {
    let mut lines = BufReader::new(stream).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        let _ = sender.send(line);
    }
}

/// Counters of the only TCP backend of a proxy.
async fn counts(client: &mut Sidecar) -> Value {
    let line = client.process().line("Envoy is started").unwrap();
    let ready = line.split_once("ready=").unwrap().1.split_whitespace().next().unwrap();
    let status = get(ready.parse().unwrap(), "/access-logs").await.unwrap().fine().json();
    status["backends"][0].clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn tcp_server_that_restarts_gets_all_lines() {
    const CALLS: usize = 50;
    let Some(mesh) = Mesh::start(Mtls::Off).await else { return };
    let (_service, _backend) = mesh.backend("backend-1").await;
    let mut client = mesh.client().await;
    let mut server = Lines::listen("127.0.0.1:0").await;
    let address = server.address.to_string();
    let plain = json!({ "type": "Plain", "plain": "%KUMA_SOURCE_SERVICE% %REQ(:PATH)%" });
    let backends = json!([{ "type": "Tcp", "tcp": { "address": address, "format": plain } }]);
    mesh.put("MeshAccessLog", "tcp", &to_backend(&json!({ "backends": backends }))).await;
    eventually("a line is forwarded", async || {
        get(client.outbound(), "/warm").await?;
        server.received.try_recv().map_err(|error| error.to_string())
    })
    .await;
    // Once it has arrived, no line is on the way.
    get(client.outbound(), "/before").await.unwrap();
    server.until("client /before").await;
    drop(server);
    eventually("the connection is closed", async || {
        let counts = counts(&mut client).await;
        expect(counts["connected"] == false, counts)
    })
    .await;
    for _ in 0..CALLS {
        assert_eq!(get(client.outbound(), "/meanwhile").await.unwrap().status, StatusCode::OK);
    }
    let mut server = Lines::listen(&address).await;
    get(client.outbound(), "/after").await.unwrap();
    assert_eq!(server.until("client /after").await, CALLS + 1);
    let counts = counts(&mut client).await;
    assert_eq!((&counts["connected"], &counts["droppedLines"]), (&json!(true), &json!(0)), "{counts}");
}

#[tokio::test(flavor = "multi_thread")]
async fn collector_gets_records_with_attributes() {
    let Some(mesh) = Mesh::start(Mtls::Off).await else { return };
    let collector = Otlp::start().await;
    let (_service, _backend) = mesh.backend("backend-1").await;
    let client = mesh.client().await;
    let backends = json!([{ "type": "OpenTelemetry", "openTelemetry": {
        "endpoint": collector.address(),
        "attributes": [{ "key": "source", "value": "%KUMA_SOURCE_SERVICE%" }, { "key": "status", "value": "%RESPONSE_CODE%" }],
        "body": "%REQ(:METHOD)% %REQ(:PATH)%",
    } }]);
    mesh.put("MeshAccessLog", "otel", &to_backend(&json!({ "backends": backends }))).await;
    let record = eventually("a record arrives", async || {
        get(client.outbound(), "/seen").await?;
        let record = collector.logs().pop();
        let seen = client.stats("access_logs|cluster.meshaccesslog").await;
        record.ok_or_else(|| format!("{seen:?}"))
    })
    .await;
    assert_eq!(record.body, "GET /seen");
    let has = |pairs: &[(String, String)], key: &str, value: &str| {
        pairs.iter().any(|(name, found)| (name.as_str(), found.as_str()) == (key, value))
    };
    assert!(has(&record.attributes, "source", "client") && has(&record.attributes, "status", "200"), "{record:?}");
    assert!(has(&record.resource, "kuma.mesh", "shop"), "{record:?}");

    // The same records over HTTP.
    let over_http = Otlp::start().await;
    let (ip, port) = (over_http.address().ip(), over_http.address().port());
    let spec = json!({ "protocol": "http", "endpoint": { "address": ip, "port": port, "path": "/tenant" } });
    mesh.put("MeshOpenTelemetryBackend", "main", &spec).await;
    let reference = json!({ "kind": "MeshOpenTelemetryBackend", "name": "main" });
    let backends =
        json!([{ "type": "OpenTelemetry", "openTelemetry": { "backendRef": reference, "body": "%REQ(:PATH)%" } }]);
    mesh.put("MeshAccessLog", "otel", &to_backend(&json!({ "backends": backends }))).await;
    eventually("a record arrives over HTTP", async || {
        get(client.outbound(), "/posted").await?;
        let seen = client.stats("access_logs|cluster.meshaccesslog").await;
        expect(over_http.logs().iter().any(|record| record.body == "/posted"), seen)
    })
    .await;
    // Its cluster goes with the policy.
    mesh.delete("MeshAccessLog", "otel").await;
    eventually("the collector has no cluster", async || {
        let clusters = client.clusters().await;
        expect(clusters.iter().all(|name| !name.starts_with("meshaccesslog:")), clusters)
    })
    .await;
    until_status(&client, StatusCode::OK).await;
}
