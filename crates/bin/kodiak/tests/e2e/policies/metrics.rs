//! MeshMetric: Prometheus discovers proxies and scrapes Envoy and applications, and collectors get the same metrics.

use std::{
    collections::BTreeSet,
    convert::Infallible,
    fs,
    net::{IpAddr, SocketAddr},
    sync::{Arc, Mutex},
    time::Duration,
};

use http_body_util::{BodyExt as _, Full};
use hyper::{
    Request, Response, StatusCode,
    body::{Bytes, Incoming},
    service::service_fn,
};
use hyper_util::{
    rt::{TokioExecutor, TokioIo},
    server::conn::auto,
};
use jiff::Timestamp;
use kodiak_crypto::{ServerCertParams, self_signed_server};
use serde_json::{Value, json};
use tokio::{net::TcpListener, task::JoinSet};

use crate::harness::{
    Answer, Dataplane, Mesh, Mtls, Prometheus, Service, Sidecar, eventually, expect, get, workload_address,
};

const PORT: u16 = 5670;

#[tokio::test(flavor = "multi_thread")]
async fn prometheus_discovers_proxies_and_scrapes_envoy_and_applications() {
    let Some(promtool) = kodiak_testkit::prometheus::promtool() else { return };
    let Some(mesh) = Mesh::start(Mtls::Off).await else { return };
    let Some(prometheus) = Prometheus::start(&mesh.control_plane, mesh.folder(), "") else { return };
    let application = Service::start("# TYPE orders_total counter\norders_total 7\n", workload_address()).await;
    let (_service, backend) = mesh.backend("backend-1").await;
    let client = mesh.client().await;

    let mut conf = scraped(&application, &json!({}));
    // Nobody listens there: it costs only its own series.
    let absent = json!({ "name": "absent", "address": workload_address(), "port": 1 });
    conf["applications"].as_array_mut().unwrap().push(absent);
    mesh.put("MeshMetric", "metrics", &json!({ "default": conf })).await;
    eventually("Prometheus scrapes both proxies", async || {
        let up = prometheus.query("up{mesh=\"shop\"} == 1").await?;
        expect(names(&up, "dataplane") == BTreeSet::from(["backend-1".to_owned(), "client".to_owned()]), up)
    })
    .await;
    eventually("Prometheus has series of Envoy", async || {
        let series = prometheus.query("envoy_cluster_upstream_rq_total{dataplane=\"client\"} > 0").await?;
        expect(names(&series, "envoy_cluster_name").contains("backend"), series)
    })
    .await;
    eventually("Prometheus has series of the application", async || {
        let query = "orders_total{application=\"orders\", dataplane=\"backend-1\", kuma_io_service=\"backend\"}";
        let series = prometheus.query(query).await?;
        expect(series.iter().map(|(_, value)| value).eq(["7"]), series)
    })
    .await;
    eventually("the failed application is counted", async || {
        let failed =
            prometheus.query("kodiak_dp_application_scrape_failures_total{application=\"absent\"} > 0").await?;
        expect(!failed.is_empty(), failed)
    })
    .await;
    let text = endpoint(&backend).await.unwrap().fine().text;
    kodiak_testkit::prometheus::check_metrics(&promtool, &text).unwrap();

    mesh.put("MeshMetric", "metrics", &json!({ "default": without_envoy(conf) })).await;
    eventually("Envoy's metrics are not selected", async || {
        let text = endpoint(&backend).await?.text;
        expect(text.contains("orders_total") && !text.contains("envoy_"), text)
    })
    .await;
    mesh.delete("MeshMetric", "metrics").await;
    eventually("the port is closed, and Prometheus has no targets", async || {
        let targets = prometheus.query("up{mesh=\"shop\"}").await?;
        expect(endpoint(&client).await.is_err() && targets.is_empty(), targets)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn prometheus_verifies_the_certificate_of_the_proxy() {
    let Some(mesh) = Mesh::start(Mtls::Off).await else { return };
    let dataplane = Dataplane::calling("client");
    let ips = [IpAddr::V4(dataplane.address)];
    let params =
        ServerCertParams { hostnames: &[], ips: &ips, valid_for: Duration::from_hours(24), now: Timestamp::now() };
    let pair = self_signed_server(&params).unwrap();
    let (certificate, key) = (mesh.folder().join("metrics.crt"), mesh.folder().join("metrics.key"));
    fs::write(&certificate, &pair.cert_pem).unwrap();
    fs::write(&key, pair.key_pem.expose()).unwrap();
    let tls = format!("  tls_config: {{ca_file: {}}}", certificate.display());
    let Some(prometheus) = Prometheus::start(&mesh.control_plane, mesh.folder(), &tls) else { return };
    let paths = ["--metrics-cert-path", certificate.to_str().unwrap(), "--metrics-key-path", key.to_str().unwrap()];
    let client = mesh.start_sidecar(dataplane, &paths).await;
    client.wait_until_ready().await;

    let backend = json!({ "type": "Prometheus", "prometheus": { "tls": { "mode": "ProvidedTLS" } } });
    mesh.put("MeshMetric", "metrics", &json!({ "default": { "backends": [backend] } })).await;
    eventually("Prometheus scrapes over TLS", async || {
        let up = prometheus.query("up{dataplane=\"client\"} == 1").await?;
        expect(up.len() == 1, (up, prometheus.process.printed()))
    })
    .await;
    endpoint(&client).await.expect_err("plaintext is not served");
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_without_a_certificate_of_the_mesh_get_no_metrics() {
    let Some(mesh) = Mesh::start(Mtls::Strict(vec![Mtls::builtin("ca")])).await else { return };
    let client = mesh.sidecar(Dataplane::calling("client")).await;
    let application = Service::start("orders_total 7\n", workload_address()).await;
    mesh.put("MeshMetric", "metrics", &json!({ "default": scraped(&application, &json!({})) })).await;
    eventually("metrics are served in plaintext", async || endpoint(&client).await.map(drop)).await;
    let tls = json!({ "tls": { "mode": "ActiveMTLSBackend" } });
    mesh.put("MeshMetric", "metrics", &json!({ "default": scraped(&application, &tls) })).await;
    eventually("plaintext is not served", async || match endpoint(&client).await {
        Ok(answer) => Err(format!("{answer:?}")),
        Err(_) => Ok(()),
    })
    .await;
    assert!(client.listeners().await.contains("_kuma:metrics:prometheus:default-backend"));
}

#[tokio::test(flavor = "multi_thread")]
async fn collector_gets_metrics_in_each_interval() {
    let Some(mesh) = Mesh::start(Mtls::Off).await else { return };
    let collector = Collector::start().await;
    let client = mesh.sidecar(Dataplane::calling("client")).await;
    let backend = json!({
        "type": "OpenTelemetry",
        "openTelemetry": { "endpoint": collector.address.to_string(), "refreshInterval": "1s" },
    });
    mesh.put("MeshMetric", "metrics", &json!({ "default": { "backends": [backend] } })).await;
    eventually("the collector got metrics twice", async || {
        let of_envoy = {
            let received = collector.received.lock().unwrap();
            received.iter().filter(|(_, body)| contains(body, "envoy_server_live")).count()
        };
        expect(of_envoy > 1, (of_envoy, client.admin("/listeners").await))
    })
    .await;
    let received = collector.received.lock().unwrap();
    let (path, body) = &received[0];
    assert_eq!(path, "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export");
    for label in ["service.name", "dataplane", "client", "shop"] {
        assert!(contains(body, label), "{label}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn referenced_collector_gets_metrics_over_http_and_may_move_to_grpc() {
    let Some(mesh) = Mesh::start(Mtls::Off).await else { return };
    let client = mesh.sidecar(Dataplane::calling("client")).await;
    let reference = json!({ "kind": "MeshOpenTelemetryBackend", "name": "main" });
    let backend =
        json!({ "type": "OpenTelemetry", "openTelemetry": { "backendRef": reference, "refreshInterval": "1s" } });
    mesh.put("MeshMetric", "metrics", &json!({ "default": { "backends": [backend] } })).await;
    for (protocol, prefix, expected) in [
        ("http", json!("/tenant/"), "/tenant/v1/metrics"),
        ("grpc", json!(null), "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export"),
    ] {
        let collector = Collector::start().await;
        let (ip, port) = (collector.address.ip(), collector.address.port());
        let spec = json!({ "protocol": protocol, "endpoint": { "address": ip, "port": port, "path": prefix } });
        mesh.put("MeshOpenTelemetryBackend", "main", &spec).await;
        eventually(&format!("metrics of Envoy arrive over {protocol}"), async || {
            let paths: Vec<String> = {
                let received = collector.received.lock().unwrap();
                let of_envoy = received.iter().filter(|(_, body)| contains(body, "envoy_server_live"));
                of_envoy.map(|(path, _)| path.clone()).collect()
            };
            let arrived = paths.len() > 1 && paths.iter().all(|path| path == expected);
            expect(arrived, (paths, client.admin("/listeners").await))
        })
        .await;
    }
}

/// Dashboards that are shipped query only what is there.
#[tokio::test(flavor = "multi_thread")]
async fn dashboards_use_existing_metrics() {
    let Some(mesh) = Mesh::start(Mtls::Strict(vec![Mtls::builtin("ca")])).await else { return };
    mesh.permit_all().await;
    let (_service, backend) = mesh.backend("backend-1").await;
    let client = mesh.client().await;
    let mut conf = json!({ "backends": [{ "type": "Prometheus", "prometheus": {} }] });
    conf["sidecar"] = json!({ "includeUnused": true, "profiles": { "appendProfiles": [{ "name": "Basic" }] } });
    conf["applications"] = json!([{ "name": "absent", "address": workload_address(), "port": 1 }]);
    mesh.put("MeshMetric", "metrics", &json!({ "default": conf })).await;
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../deploy/grafana");
    let files = fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
    let files: Vec<_> = files.filter(|file| file.extension().is_some_and(|extension| extension == "json")).collect();
    assert!(files.len() >= 3, "{files:?}");
    let mut queries = Vec::new();
    for file in files {
        let before = queries.len();
        let dashboard: Value = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
        collect_queries(&dashboard, &mut queries);
        assert!(queries.len() > before, "{}", file.display());
    }
    let used: BTreeSet<_> = queries.iter().flat_map(|query| identifiers(query)).collect();
    // Envoy shows histograms some seconds after the first request.
    eventually("all names of the dashboards exist", async || {
        let mut exposed = mesh.control_plane.metrics().await;
        for proxy in [&backend, &client] {
            exposed += &endpoint(proxy).await?.text;
        }
        let known = identifiers(&exposed);
        let missing: Vec<_> = used.difference(&known).collect();
        expect(missing.is_empty(), missing)
    })
    .await;
}

/// Texts of `expr`, and of `query` of variables.
fn collect_queries(json: &Value, queries: &mut Vec<String>) {
    match json {
        Value::Object(fields) => {
            for (name, value) in fields {
                match value.as_str().filter(|_| name == "expr" || name == "query") {
                    Some(query) => queries.push(query.to_owned()),
                    None => collect_queries(value, queries),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| collect_queries(item, queries)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => (),
    }
}

/// Names of metrics and labels of Envoy and of Kodiak.
fn identifiers(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
    words.filter(|word| word.starts_with("envoy_") || word.starts_with("kodiak_")).map(str::to_owned).collect()
}

fn scraped(application: &Service, prometheus: &Value) -> Value {
    json!({
        "applications": [{ "name": "orders", "address": application.address.ip(), "port": application.address.port() }],
        "backends": [{ "type": "Prometheus", "prometheus": prometheus }],
    })
}

fn without_envoy(mut conf: Value) -> Value {
    conf["sidecar"] = json!({ "profiles": { "appendProfiles": [{ "name": "None" }] } });
    conf
}

/// As Prometheus would scrape it without TLS.
async fn endpoint(proxy: &Sidecar) -> Result<Answer, String> {
    let answer = get(SocketAddr::from((proxy.dataplane.address, PORT)), "/metrics").await?;
    if answer.status == StatusCode::OK { Ok(answer) } else { Err(format!("{answer:?}")) }
}

fn names(series: &[(Value, String)], label: &str) -> BTreeSet<String> {
    series.iter().filter_map(|(labels, _)| labels[label].as_str().map(str::to_owned)).collect()
}

fn contains(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|window| window == text.as_bytes())
}

/// Receives OTLP over gRPC: paths, and messages as they are.
struct Collector {
    address: SocketAddr,
    received: Arc<Mutex<Vec<(String, Bytes)>>>,
    _tasks: JoinSet<()>,
}

impl Collector {
    async fn start() -> Self {
        let listener = TcpListener::bind((workload_address(), 0)).await.unwrap();
        let (address, received) = (listener.local_addr().unwrap(), Arc::new(Mutex::new(Vec::new())));
        let (mut tasks, shared) = (JoinSet::new(), Arc::clone(&received));
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let received = Arc::clone(&shared);
                let service = service_fn(move |request: Request<Incoming>| {
                    let received = Arc::clone(&received);
                    async move {
                        let path = request.uri().path().to_owned();
                        let body = request.into_body().collect().await.unwrap().to_bytes();
                        received.lock().unwrap().push((path, body));
                        let mut response = Response::new(Full::<Bytes>::default());
                        for (name, value) in [("content-type", "application/grpc"), ("grpc-status", "0")] {
                            response.headers_mut().insert(name, value.parse().unwrap());
                        }
                        Ok::<_, Infallible>(response)
                    }
                });
                connections.spawn(async move {
                    let server = auto::Builder::new(TokioExecutor::new());
                    // Proxies close connections as they like.
                    let _ = server.serve_connection(TokioIo::new(stream), service).await;
                });
            }
        });
        Self { address, received, _tasks: tasks }
    }
}
