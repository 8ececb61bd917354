//! The simulator predicts each response of a real Envoy.

mod backend;
mod chains;
mod requests;

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;

use kodiak_envoy::envoy::config::bootstrap::v3::Bootstrap;
use kodiak_envoy::json::from_json;
use kodiak_model::yaml;
use kodiak_testkit::envoy::envoy;
use kodiak_testkit::simulate::{Answer, Connection, Forwarded, Headers, Refusal, Request, Sent, SimulatedProxy};
use serde_json::{Value, json};

use crate::running::{PATIENCE, Running};
use backend::Backend;

/// Observable parts of a response.
#[derive(Debug, PartialEq, Eq)]
struct Seen {
    status: u16,
    location: Option<String>,
    /// Changes of the route to the response headers. Missing for a denied request.
    headers: Option<Headers>,
    arrived: Option<Arrived>,
}

/// The request as one of the clusters received it.
#[derive(Debug, PartialEq, Eq)]
struct Arrived {
    cluster: String,
    /// Method, path and version.
    line: String,
    headers: Headers,
}

#[test]
fn simulator_responds_as_envoy_does() {
    let Some(envoy) = envoy() else { return };
    let backends = ["a", "b", "c"].map(|name| (name, Backend::start(name)));
    let (proxy, running) = start(envoy, include_str!("listener.yaml"), &backends);
    let address = running.listener("calls");

    let requests = requests::all();
    let mut differences = Vec::new();
    for request in &requests {
        let simulated = simulated(&proxy, request);
        let real = real(&address, request);
        if simulated != real {
            differences.push(format!("{request:?}:\nsimulated: {simulated:?}\nreal:      {real:?}"));
        }
    }
    let count = differences.len();
    assert!(differences.is_empty(), "{count} of {}:\n{}", requests.len(), differences.join("\n\n"));
}

/// The simulator and a real Envoy, with the same listener and a cluster for each backend.
fn start(envoy: &Path, listener: &str, backends: &[(&str, Backend)]) -> (SimulatedProxy, Running) {
    let clusters: Vec<Value> = backends.iter().map(|(name, backend)| cluster(name, backend.port())).collect();
    let listener = yaml::parse(listener).unwrap().remove(0).value;
    let bootstrap: Bootstrap = from_json(&json!({
        "admin": { "address": { "socket_address": { "address": "127.0.0.1", "port_value": 0 } } },
        "static_resources": { "listeners": [listener], "clusters": clusters },
    }))
    .unwrap();
    let resources = bootstrap.static_resources.clone().unwrap();
    let running = Running::start(envoy, &bootstrap);
    running.wait_until_live();
    (SimulatedProxy::new(resources.listeners, resources.clusters, Vec::new()), running)
}

fn cluster(name: &str, port: u16) -> Value {
    let address = json!({ "socket_address": { "address": "127.0.0.1", "port_value": port } });
    let endpoints = json!([{ "lb_endpoints": [{ "endpoint": { "address": address } }] }]);
    json!({ "name": name, "load_assignment": { "cluster_name": name, "endpoints": endpoints } })
}

fn simulated(proxy: &SimulatedProxy, request: &Request) -> Seen {
    let seen = |status| Seen { status, location: None, headers: None, arrived: None };
    match proxy.outbound("127.0.0.1", 0, request, &Connection::default()) {
        Err(Refusal::Denied { status, .. }) => seen(status.unwrap()),
        Err(Refusal::NoRoute) => seen(404),
        Err(Refusal::NoCluster(_)) => seen(503),
        Err(other) => panic!("{request:?}: {other}"),
        Ok(Sent { route, answer, .. }) => {
            let mut headers: Headers = match &answer {
                Answer::Forwarded(_) => {
                    ["x-r-server", "x-r-secret", "x-r-both"].map(|name| (name.to_owned(), "backend".to_owned())).into()
                }
                Answer::Redirected { .. } | Answer::Responded { .. } => Headers::new(),
            };
            route.unwrap().response.apply(&mut headers);
            headers.sort();
            match answer {
                Answer::Responded { status, .. } => Seen { headers: Some(headers), ..seen(status) },
                Answer::Redirected { status, location } => {
                    Seen { location: Some(location), headers: Some(headers), ..seen(status) }
                }
                Answer::Forwarded(forwarded) => {
                    Seen { headers: Some(headers), arrived: Some(arrived(request, *forwarded)), ..seen(200) }
                }
            }
        }
    }
}

fn arrived(request: &Request, forwarded: Forwarded) -> Arrived {
    let http = forwarded.http.unwrap();
    let mut headers = http.headers;
    headers.push(("host".to_owned(), http.authority));
    headers.sort();
    Arrived { cluster: forwarded.cluster, line: format!("{} {} HTTP/1.1", request.method, http.path), headers }
}

fn real(address: &str, request: &Request) -> Seen {
    let answer = send(address, request);
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let (line, headers) = head.split_once("\r\n").unwrap();
    let status = line.split(' ').nth(1).unwrap().parse().unwrap();
    let all = read(headers);
    let location = all.iter().find(|(name, _)| name == "location").map(|(_, value)| value.clone());
    let headers = all.into_iter().filter(|(name, _)| name.starts_with("x-r-")).collect();
    let headers = (![403, 404, 503].contains(&status)).then_some(headers);
    let arrived = body.split_once("\r\n").filter(|_| status == 200).map(|(cluster, head)| {
        let (line, headers) = head.split_once("\r\n").unwrap();
        let headers = read(headers).into_iter().filter(|(name, _)| !is_envoys_own(name)).collect();
        Arrived { cluster: cluster.to_owned(), line: line.to_owned(), headers }
    });
    Seen { status, location, headers, arrived }
}

fn send(address: &str, request: &Request) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let Request { method, path, authority, headers, .. } = request;
    let mut lines =
        vec![format!("{method} {path} HTTP/1.1"), format!("host: {authority}"), "connection: close".to_owned()];
    lines.extend(headers.iter().map(|(name, value)| format!("{name}: {value}")));
    stream.write_all(format!("{}\r\n\r\n", lines.join("\r\n")).as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// Sorted: two headers of one name are in no order that matters here.
fn read(headers: &str) -> Headers {
    let pairs = headers.lines().filter_map(|line| line.split_once(':'));
    let mut headers: Headers = pairs.map(|(name, value)| (name.to_owned(), value.trim().to_owned())).collect();
    headers.sort();
    headers
}

/// Headers that Envoy adds to each request that it forwards.
fn is_envoys_own(name: &str) -> bool {
    name.starts_with("x-envoy-") || ["x-forwarded-proto", "x-request-id", "content-length"].contains(&name)
}
