//! MeshTrace: spans of three hops in one trace, at real receivers.

use std::{
    collections::BTreeSet,
    convert::Infallible,
    net::{Ipv4Addr, SocketAddr},
    sync::{Arc, Mutex},
};

use http_body_util::{BodyExt as _, Collected, Full};
use hyper::{Request, Response, body::Bytes, body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use kodiak_testkit::otlp::{Otlp, Span};
use serde_json::{Value, json};
use tokio::{net::TcpListener, task::JoinSet};

use crate::harness::{Dataplane, Manner, Mesh, Mtls, Service, Sidecar, eventually, expect, workload_address};

/// A client calls `backend`, which calls `storage`.
struct Chain {
    client: Sidecar,
    _servers: [(Service, Sidecar); 2],
}

impl Chain {
    async fn start(mesh: &Mesh) -> Self {
        let storage = mesh.serving("storage-1", |service| Dataplane::serving_as("storage", "storage-1", service)).await;
        let service = Service::start("backend-1", workload_address()).await;
        let dataplane = Dataplane::serving("backend-1", &service).also_calling("storage");
        service.answers(Manner::Forwarding(dataplane.other(0)));
        let backend = mesh.sidecar(dataplane).await;
        Self { client: mesh.client().await, _servers: [storage, (service, backend)] }
    }

    async fn call(&self, path: &str) {
        let answer = self.client.call_with(path, &[("x-team", "blue")]).await.unwrap().fine();
        assert_eq!(answer.text, "storage-1");
    }
}

fn traces(backend: &Value, sampling: &Value) -> Value {
    let tags = json!([{ "name": "team", "header": { "name": "x-team" } }]);
    json!({ "default": { "backends": [backend], "sampling": sampling, "tags": tags } })
}

fn collector(address: SocketAddr) -> Value {
    json!({ "type": "OpenTelemetry", "openTelemetry": { "endpoint": address } })
}

fn all() -> Value {
    json!({ "overall": 100 })
}

/// Spans of the requests with this path.
fn of_path(collector: &Otlp, path: &str) -> Vec<Span> {
    let spans = collector.traces().into_iter();
    spans.filter(|span| span.attribute("http.url").ends_with(path)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn three_hops_are_one_trace_of_a_collector() {
    let Some(mesh) = Mesh::start(Mtls::Off).await else { return };
    let chain = Chain::start(&mesh).await;
    let receiver = Otlp::start().await;
    mesh.put("MeshTrace", "traces", &traces(&collector(receiver.address()), &all())).await;
    let mut calls = 0;
    // The first requests come before all proxies have the policy.
    let spans = eventually("a request has a span of each proxy and direction", async || {
        calls += 1;
        chain.call(&format!("/call-{calls}")).await;
        let paths = (1..=calls).map(|call| of_path(&receiver, &format!("/call-{call}")));
        paths.into_iter().find(|spans| spans.len() == 4).ok_or_else(|| format!("{:?}", receiver.traces()))
    })
    .await;
    let ids: BTreeSet<&str> = spans.iter().map(|span| span.trace_id.as_str()).collect();
    assert_eq!(ids.len(), 1, "{spans:?}");
    let mut services: Vec<&str> = spans.iter().map(|span| span.service.as_str()).collect();
    services.sort_unstable();
    assert_eq!(services, ["backend", "backend", "client", "storage"]);
    // Each span but the first is the child of another one.
    let parents: BTreeSet<&str> = spans.iter().map(|span| span.span_id.as_str()).collect();
    let orphans: Vec<&Span> = spans.iter().filter(|span| !parents.contains(span.parent_id.as_str())).collect();
    assert_eq!(orphans.len(), 1, "{spans:?}");
    assert_eq!(orphans[0].service, "client");
    assert_eq!((orphans[0].attribute("kuma.mesh"), orphans[0].attribute("team")), ("shop", "blue"));
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_sent_without_sampling_and_a_lost_collector_fails_no_request() {
    let Some(mesh) = Mesh::start(Mtls::Off).await else { return };
    let chain = Chain::start(&mesh).await;
    let receiver = Otlp::start().await;
    let none = traces(&collector(receiver.address()), &json!({ "overall": 0 }));
    mesh.until_taken("client", mesh.put("MeshTrace", "traces", &none)).await;
    for _ in 0..20 {
        chain.call("/unsampled").await;
    }
    mesh.put("MeshTrace", "traces", &traces(&collector(receiver.address()), &all())).await;
    eventually("sampled requests are sent", async || {
        chain.call("/sampled").await;
        expect(!of_path(&receiver, "/sampled").is_empty(), receiver.traces())
    })
    .await;
    // The client's proxy decides for the whole trace.
    let unsampled = of_path(&receiver, "/unsampled");
    assert!(unsampled.iter().all(|span| span.service != "client"), "{unsampled:?}");

    drop(receiver);
    for _ in 0..100 {
        chain.call("/after").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn zipkin_and_datadog_receive_spans() {
    let Some(mesh) = Mesh::start(Mtls::Off).await else { return };
    let chain = Chain::start(&mesh).await;
    let zipkin = Receiver::start().await;
    let backend = json!({ "type": "Zipkin", "zipkin": { "url": format!("http://{}/api/v2/spans", zipkin.address) } });
    mesh.put("MeshTrace", "traces", &traces(&backend, &all())).await;
    let names = ["backend", "client", "storage"].map(str::to_owned);
    eventually("one trace has spans of three services", async || {
        chain.call("/zipkin").await;
        let spans = zipkin.spans();
        let mut traces = std::collections::BTreeMap::<String, BTreeSet<String>>::new();
        for span in &spans {
            let service = span["localEndpoint"]["serviceName"].as_str().unwrap_or_default().to_owned();
            traces.entry(span["traceId"].as_str().unwrap_or_default().to_owned()).or_default().insert(service);
        }
        expect(traces.values().any(|services| services.iter().eq(&names)), traces)
    })
    .await;
    assert!(zipkin.requests().iter().all(|(path, _)| path == "POST /api/v2/spans"));

    let agent = Receiver::start().await;
    let backend = json!({ "type": "Datadog", "datadog": { "url": format!("http://{}", agent.address) } });
    mesh.put("MeshTrace", "traces", &traces(&backend, &all())).await;
    eventually("the agent receives traces of the backend", async || {
        chain.call("/datadog").await;
        let requests = agent.requests();
        let has_service = |body: &Bytes| body.windows(7).any(|part| part == b"backend");
        let received = requests.iter().any(|(path, body)| path.ends_with("/v0.4/traces") && has_service(body));
        expect(received, requests.iter().map(|(path, _)| path.clone()).collect::<BTreeSet<_>>())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn referenced_backend_receives_spans_over_http_and_may_move() {
    let Some(mesh) = Mesh::start(Mtls::Off).await else { return };
    let chain = Chain::start(&mesh).await;
    let reference = json!({ "kind": "MeshOpenTelemetryBackend", "name": "main" });
    let backend = json!({ "type": "OpenTelemetry", "openTelemetry": { "backendRef": reference } });
    mesh.put("MeshTrace", "traces", &traces(&backend, &all())).await;
    for (protocol, path) in [("http", json!("/tenant")), ("grpc", json!(null))] {
        let receiver = Otlp::start().await;
        let address = receiver.address();
        let endpoint = json!({ "address": address.ip(), "port": address.port(), "path": path });
        let spec = json!({ "protocol": protocol, "endpoint": endpoint });
        mesh.put("MeshOpenTelemetryBackend", "main", &spec).await;
        eventually(&format!("spans arrive over {protocol}"), async || {
            chain.call("/moved").await;
            expect(!of_path(&receiver, "/moved").is_empty(), receiver.traces())
        })
        .await;
    }
}

/// An HTTP server that keeps what it receives.
struct Receiver {
    address: SocketAddr,
    requests: Arc<Mutex<Vec<(String, Bytes)>>>,
    _tasks: JoinSet<()>,
}

impl Receiver {
    async fn start() -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let requests = Arc::<Mutex<Vec<(String, Bytes)>>>::default();
        let mut tasks = JoinSet::new();
        let kept = requests.clone();
        tasks.spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let kept = kept.clone();
                let answer = service_fn(move |request: Request<Incoming>| {
                    let kept = kept.clone();
                    async move {
                        let path = format!("{} {}", request.method(), request.uri().path());
                        let body = request.into_body().collect().await.map(Collected::to_bytes);
                        kept.lock().unwrap().push((path, body.unwrap_or_default()));
                        Ok::<_, Infallible>(Response::new(Full::new(Bytes::from_static(b"{}"))))
                    }
                });
                tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), answer));
            }
        });
        Self { address, requests, _tasks: tasks }
    }

    /// Methods with paths, and bodies.
    fn requests(&self) -> Vec<(String, Bytes)> {
        self.requests.lock().unwrap().clone()
    }

    /// Spans of Zipkin.
    fn spans(&self) -> Vec<Value> {
        let bodies = self.requests().into_iter();
        bodies.flat_map(|(_, body)| serde_json::from_slice::<Vec<Value>>(&body).unwrap()).collect()
    }
}
