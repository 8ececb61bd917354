//! Health, metrics, and information about the control plane.

use http_body_util::{BodyExt as _, Empty};
use hyper::{Method, Request, StatusCode};
use hyper_util::{client::legacy::Client, rt::TokioExecutor};
use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, pem::PemObject as _},
};

use crate::harness::{TestControlPlane, get, send};

#[tokio::test]
async fn health_and_metrics_are_served() {
    let cp = TestControlPlane::start().await;
    cp.get("/meshes/default").await;
    let diagnostics = cp.control_plane.diagnostics;
    assert_eq!(get(diagnostics, "/healthy").await.status, StatusCode::OK);
    assert_eq!(get(diagnostics, "/ready").await.text, "OK\n");
    let metrics = get(diagnostics, "/metrics").await.text;
    for line in [
        "kodiak_resources{kind=\"Mesh\"} 1",
        "kodiak_api_requests_total{method=\"GET\",route=\"/meshes/{name}\",code=\"200\"} 1",
        "# TYPE kodiak_store_commit_seconds histogram",
        "# EOF",
    ] {
        assert!(metrics.contains(line), "no {line} in\n{metrics}");
    }
}

#[tokio::test]
async fn frequent_readiness_probes_cause_few_writes() {
    const QUESTIONS: usize = 300;
    let cp = TestControlPlane::start().await;
    let diagnostics = cp.control_plane.diagnostics;
    let commits = async || -> usize {
        let metrics = get(diagnostics, "/metrics").await.text;
        let count = metrics.lines().find_map(|line| line.strip_prefix("kodiak_store_commits_total ")).unwrap();
        count.parse().unwrap()
    };
    let before = commits().await;
    for _ in 0..QUESTIONS {
        assert_eq!(get(diagnostics, "/ready").await.status, StatusCode::OK);
    }
    let made = commits().await - before;
    assert!(made < QUESTIONS / 10, "{made} durable writes for {QUESTIONS} questions");
}

#[tokio::test]
async fn index_shows_version_and_instance() {
    let cp = TestControlPlane::start_with(|config| config.store.postgres.password = "hunter2".into()).await;
    let index = cp.get("/").await.json();
    assert_eq!(index["kodiak"]["version"], env!("CARGO_PKG_VERSION"));
    assert!(!index["clusterId"].as_str().unwrap().is_empty());
    let config = cp.get("/config").await;
    assert!(!config.text.contains("hunter2"));
    assert_eq!(config.json()["store"]["type"], "file");
    let policies = cp.get("/policies").await.json();
    let timeout = policies["policies"].as_array().unwrap().iter().find(|p| p["name"] == "MeshTimeout").unwrap().clone();
    assert_eq!((&timeout["path"], &timeout["pluralDisplayName"]), (&"meshtimeouts".into(), &"Mesh Timeouts".into()));
    let resources = cp.get("/_resources").await.json();
    assert!(resources["resources"].as_array().unwrap().len() > 30);
    assert_eq!(cp.get("/openapi.json").await.json()["openapi"], "3.1.0");
    let id = index["clusterId"].clone();
    assert_eq!(cp.restart().await.get("/").await.json()["clusterId"], id);
}

#[tokio::test]
async fn https_certificate_can_be_verified() {
    let cp = TestControlPlane::start().await;
    let pem = std::fs::read(cp.folder().join("kodiak.crt")).unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(&pem).unwrap()).unwrap();
    let provider = std::sync::Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let tls = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let connector = hyper_rustls::HttpsConnectorBuilder::new()
        .with_tls_config(tls)
        .https_only()
        .enable_http1()
        .enable_http2()
        .build();
    let client: Client<_, Empty<hyper::body::Bytes>> = Client::builder(TokioExecutor::new()).build(connector);
    let url = format!("https://localhost:{}/meshes/default", cp.control_plane.https.unwrap().port());
    let request = Request::builder().method(Method::GET).uri(url).body(Empty::new()).unwrap();
    let response = client.request(request).await.unwrap();
    assert_eq!(response.status(), StatusCode::OK);
    let body = response.into_body().collect().await.unwrap().to_bytes();
    assert!(String::from_utf8_lossy(&body).contains("\"name\":\"default\""));
}

#[tokio::test]
async fn ca_file_verifies_all_names_also_those_that_are_added_later() {
    let cp = TestControlPlane::start_with(|config| {
        config.api_server.https.interface = "0.0.0.0".parse().unwrap();
        config.general.certificate_names = vec!["127.0.0.7".to_owned()];
    })
    .await;
    let ca = std::fs::read(cp.folder().join("kodiak.crt")).unwrap();
    assert!(answers(&cp, &ca, "127.0.0.1").await && answers(&cp, &ca, "127.0.0.7").await);
    assert!(!answers(&cp, &ca, "127.0.0.8").await);
    // Another address of this machine, if it has one.
    let own = std::net::UdpSocket::bind("0.0.0.0:0").unwrap();
    if own.connect("192.0.2.1:9").is_ok() {
        assert!(answers(&cp, &ca, &own.local_addr().unwrap().ip().to_string()).await);
    }
    let cp = cp
        .restart_with(|config| {
            config.api_server.https.interface = "0.0.0.0".parse().unwrap();
            config.general.certificate_names = vec!["127.0.0.8".to_owned()];
        })
        .await;
    assert!(answers(&cp, &ca, "127.0.0.8").await, "clients need no new file");
}

/// Whether a client with this CA file gets an answer at the address.
async fn answers(cp: &TestControlPlane, ca: &[u8], address: &str) -> bool {
    let connector = hyper_rustls::HttpsConnectorBuilder::new()
        .with_tls_config(kodiak_crypto::client_config(ca).unwrap())
        .https_only()
        .enable_http1()
        .build();
    let client: Client<_, Empty<hyper::body::Bytes>> = Client::builder(TokioExecutor::new()).build(connector);
    let url = format!("https://{address}:{}/", cp.control_plane.https.unwrap().port());
    let request = Request::builder().method(Method::GET).uri(url).body(Empty::new()).unwrap();
    client.request(request).await.is_ok_and(|response| response.status() == StatusCode::OK)
}

#[tokio::test]
async fn plain_requests_to_the_https_port_are_harmless() {
    let cp = TestControlPlane::start().await;
    let https = cp.control_plane.https.unwrap();
    let plain = tokio::spawn(send(https, Method::GET, "/", &[], String::new()));
    assert!(plain.await.is_err(), "the handshake must fail");
    assert_eq!(cp.get("/").await.status, StatusCode::OK);
}
