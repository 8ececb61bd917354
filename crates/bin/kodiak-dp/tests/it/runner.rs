//! Whole proxies: a fake control plane, and a real Envoy.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use hyper::StatusCode;
use kodiak_dp::run::{Dns, Options, Proxy, RunError, Runner, Token};
use kodiak_testkit::envoy::envoy;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::oneshot;

use crate::control_plane::{Answer, Asked, ControlPlane, certificate};

/// Far longer than needed, for machines under load.
const PATIENCE: Duration = Duration::from_mins(1);
const NAMES: &str = r#"{"records":[{"name":"web.mesh.local","ips":["240.0.0.7"]}],"ttl":30}"#;

/// Bootstrap of the control plane: the admin interface on one socket, and DNS names of the mesh on the other.
fn bootstrap(asked: &Asked) -> Answer {
    let work_dir = Path::new(asked.body["workdir"].as_str().unwrap());
    let manager = json!({
        "@type": "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
        "stat_prefix": "names",
        "http_filters": [{"name": "envoy.filters.http.router", "typed_config":
            {"@type": "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router"}}],
        "route_config": {"virtual_hosts": [{"name": "all", "domains": ["*"], "routes": [
            {"match": {"path": "/dns"}, "direct_response": {"status": 200, "body": {"inline_string": NAMES}}},
        ]}]},
    });
    let pipe = |name: &str| json!({"pipe": {"path": work_dir.join(name), "mode": 0o600}});
    let bootstrap = json!({
        "node": {"id": "default.web-1", "cluster": "web"},
        "admin": {"address": pipe("kuma-envoy-admin.sock")},
        "static_resources": {"listeners": [{
            "name": "names",
            "address": pipe("kuma-mesh-metric-config.sock"),
            "filter_chains": [{"filters": [
                {"name": "envoy.filters.network.http_connection_manager", "typed_config": manager},
            ]}],
        }]},
    });
    encoded(&bootstrap.to_string())
}

fn encoded(bootstrap: &str) -> Answer {
    let body = json!({"bootstrap": BASE64_STANDARD.encode(bootstrap), "kumaSidecarConfiguration": {}});
    (StatusCode::OK, body.to_string())
}

fn options(control_plane: &ControlPlane, envoy: &Path, output: &Path) -> Options {
    let proxy = Proxy { mesh: "default".to_owned(), name: "web-1".to_owned(), resource: Some("{}".to_owned()) };
    let mut options = Options::new(control_plane.url(), control_plane.ca_pem.clone(), proxy, envoy.to_owned());
    options.token = Some(Token { text: "the.token".to_owned(), file: None });
    options.concurrency = Some(1);
    options.envoy_output = Some(output.join("envoy.log"));
    options.retry_every = Duration::from_millis(10);
    options.drain_time = Duration::ZERO;
    options
}

async fn ready(port: u16) -> String {
    let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await.unwrap();
    get(stream, "/ready").await
}

async fn admin(socket: &Path, path: &str) -> String {
    match UnixStream::connect(socket).await {
        Ok(stream) => get(stream, path).await,
        Err(error) => error.to_string(),
    }
}

/// The whole response, as text; the part before the other side closed the connection.
async fn get(mut stream: impl AsyncRead + AsyncWrite + Unpin, path: &str) -> String {
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    let mut answer = Vec::new();
    if stream.write_all(request.as_bytes()).await.is_ok() {
        let _ = stream.read_to_end(&mut answer).await;
    }
    String::from_utf8(answer).unwrap()
}

async fn wait_until<F: Future<Output = bool>>(what: &str, folder: &Path, mut look: impl FnMut() -> F) {
    let started = Instant::now();
    while !look().await {
        let log = || fs::read_to_string(folder.join("envoy.log")).unwrap_or_default();
        assert!(started.elapsed() < PATIENCE, "not after {PATIENCE:?}: {what}:\n{}", log());
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Processes that have this text in their command line.
fn processes_with(text: &str) -> Vec<String> {
    let all = fs::read_dir("/proc").unwrap().flatten();
    let lines = all.filter_map(|entry| fs::read_to_string(entry.path().join("cmdline")).ok());
    lines.filter(|line| line.contains(text)).collect()
}

fn work_dir_of(runner: &Runner) -> PathBuf {
    runner.admin_socket().parent().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn proxy_waits_starts_drains_and_leaves_nothing() {
    let Some(envoy) = envoy() else { return };
    let folder = tempfile::tempdir().unwrap();
    let (told, draining) = oneshot::channel::<String>();
    let told = std::sync::Mutex::new(Some(told));
    let control_plane = ControlPlane::start(move |n, asked| {
        let told = if n == 4 { told.lock().unwrap().take() } else { None };
        async move {
            let port = asked.body["readinessPort"].as_u64().map(|port| u16::try_from(port).unwrap());
            match (n, asked.path.as_str()) {
                // First unknown, then failing, then available.
                (0, "/bootstrap") => (StatusCode::NOT_FOUND, String::new()),
                (1, "/bootstrap") => (StatusCode::INTERNAL_SERVER_ERROR, "starting".to_owned()),
                (2, "/bootstrap") => {
                    let answer = ready(port.unwrap()).await;
                    assert!(answer.starts_with("HTTP/1.1 503 ") && answer.ends_with("NOT_READY\n"), "{answer}");
                    bootstrap(&asked)
                }
                // Its store is unavailable for a moment.
                (3, "/drain") => (StatusCode::SERVICE_UNAVAILABLE, "the store does not answer".to_owned()),
                (4, "/drain") => {
                    told.unwrap().send(asked.body.to_string()).unwrap();
                    (StatusCode::OK, String::new())
                }
                other => panic!("{other:?}"),
            }
        }
    })
    .await;
    let mut options = options(&control_plane, envoy, folder.path());
    options.drain_time = Duration::from_hours(1);
    options.dns = Some(Dns { port: 0, resolv_conf: folder.path().join("resolv.conf") });
    let runner = Runner::start(options).await.unwrap();
    let ready_port = runner.readiness_address().port();
    wait_until("it is ready", folder.path(), || async { ready(ready_port).await.starts_with("HTTP/1.1 200 OK") }).await;
    bootstrap_request_is_complete(&control_plane.asked()[2], &runner);
    let dns = runner.dns_address().unwrap();
    wait_until("names of the mesh are known", folder.path(), || async { resolves(dns) }).await;

    let work_dir = work_dir_of(&runner);
    let text = work_dir.to_str().unwrap().to_owned();
    assert_eq!(processes_with(&text).len(), 1);
    let (hurry, hurried) = oneshot::channel::<()>();
    let socket = runner.admin_socket().to_owned();
    let stopped = tokio::spawn(runner.stop_sooner_on(async { hurried.await.unwrap() }));
    assert_eq!(draining.await.unwrap(), r#"{"mesh":"default","name":"web-1"}"#);
    let terminating = ready(ready_port).await;
    assert!(terminating.starts_with("HTTP/1.1 503 ") && terminating.ends_with("TERMINATING\n"), "{terminating}");
    // Envoy serves its current connections, and asks clients to close them.
    wait_until("Envoy drains", folder.path(), || async {
        admin(&socket, "/server_info").await.contains("\"state\": \"DRAINING\"")
    })
    .await;
    hurry.send(()).unwrap();
    assert!(stopped.await.unwrap().success());
    let drain = control_plane.asked().pop().unwrap();
    assert_eq!(drain.headers.get("authorization").unwrap(), "the.token");
    assert_eq!((work_dir.exists(), processes_with(&text).len()), (false, 0));
}

fn bootstrap_request_is_complete(asked: &Asked, runner: &Runner) {
    assert_eq!(
        (asked.path.as_str(), asked.headers.get("accept").unwrap().as_bytes()),
        ("/bootstrap", &b"application/json"[..])
    );
    let expected = json!({
        "mesh": "default",
        "name": "web-1",
        "proxyType": "dataplane",
        "dataplaneToken": "the.token",
        "dataplaneResource": "{}",
        "readinessPort": runner.readiness_address().port(),
        "dnsPort": runner.dns_address().unwrap().port(),
        "features": [
            "feature-reuse-port", "feature-strict-inbound-ports", "feature-tcp-accesslog-via-named-pipe",
            "feature-plaintext-callers", "feature-delta-grpc", "feature-embedded-dns",
        ],
        "workdir": ".",
        "operatingSystem": "linux",
        "ipv6Enabled": false,
    });
    for (key, value) in expected.as_object().unwrap() {
        assert_eq!(&asked.body[key], value, "{key}");
    }
    assert_eq!(asked.body["version"]["envoy"]["version"], "1.40.0");
    assert!(asked.body["caCert"].as_str().unwrap().starts_with("-----BEGIN CERTIFICATE-----"));
    assert_eq!(asked.body.get("dataplaneConfig"), None::<&Value>);
}

/// Whether the name that Envoy has resolves to its address.
fn resolves(server: SocketAddr) -> bool {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let query = [&[0, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0][..], b"\x03WEB\x04mesh\x05local\0\0\x01\0\x01"].concat();
    socket.send_to(&query, server).unwrap();
    let mut buffer = [0; 512];
    let length = socket.recv(&mut buffer).unwrap();
    buffer[..length].ends_with(&[240, 0, 0, 7])
}

#[tokio::test(flavor = "multi_thread")]
async fn dropped_proxy_leaves_no_process() {
    let Some(envoy) = envoy() else { return };
    let folder = tempfile::tempdir().unwrap();
    let control_plane = ControlPlane::start(|_, asked| async move { bootstrap(&asked) }).await;
    let runner = Runner::start(options(&control_plane, envoy, folder.path())).await.unwrap();
    let (work_dir, socket) = (work_dir_of(&runner), runner.admin_socket().to_owned());
    wait_until("it is live", folder.path(), || async { admin(&socket, "/ready").await.contains("LIVE") }).await;
    drop(runner);
    assert_eq!((work_dir.exists(), processes_with(work_dir.to_str().unwrap()).len()), (false, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn control_plane_without_drain_support_is_no_obstacle() {
    let Some(envoy) = envoy() else { return };
    let folder = tempfile::tempdir().unwrap();
    let control_plane = ControlPlane::start(|n, asked| async move {
        if n == 0 { bootstrap(&asked) } else { (StatusCode::NOT_FOUND, "404 page not found".to_owned()) }
    })
    .await;
    let runner = Runner::start(options(&control_plane, envoy, folder.path())).await.unwrap();
    let socket = runner.admin_socket().to_owned();
    wait_until("it is live", folder.path(), || async { admin(&socket, "/ready").await.contains("LIVE") }).await;
    assert!(runner.stop().await.success());
}

#[tokio::test(flavor = "multi_thread")]
async fn exit_of_envoy_is_reported() {
    let Some(envoy) = envoy() else { return };
    let folder = tempfile::tempdir().unwrap();
    let control_plane = ControlPlane::start(|_, _| async { encoded("nonsense: true\n") }).await;
    let runner = Runner::start(options(&control_plane, envoy, folder.path())).await.unwrap();
    assert_eq!(runner.ended().await.code(), Some(1));
    let work_dir = work_dir_of(&runner);
    // Stopping a proxy that has exited returns at once.
    assert_eq!(runner.stop().await.code(), Some(1));
    assert!(!work_dir.exists());
    assert!(fs::read_to_string(folder.path().join("envoy.log")).unwrap().contains("nonsense"));
}

#[tokio::test(flavor = "multi_thread")]
async fn untrusted_control_plane_is_rejected() {
    let Some(envoy) = envoy() else { return };
    let folder = tempfile::tempdir().unwrap();
    let control_plane = ControlPlane::start(|_, _| async { panic!("nothing is sent to strangers") }).await;
    let mut wrong_authority = options(&control_plane, envoy, folder.path());
    wrong_authority.ca_pem = certificate().cert_pem.into();
    let mut wrong_name = options(&control_plane, envoy, folder.path());
    wrong_name.control_plane = format!("https://{}", control_plane.address);
    for options in [wrong_authority, wrong_name] {
        let error = Runner::start(options).await.err().unwrap();
        assert!(matches!(error, RunError::Untrusted { .. }), "{error:?}");
    }
    assert!(control_plane.asked().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_options_fail_at_once_with_the_reason() {
    let Some(envoy) = envoy() else { return };
    let folder = tempfile::tempdir().unwrap();
    let control_plane = ControlPlane::start(|n, _| async move {
        match n {
            0 => (StatusCode::UNPROCESSABLE_ENTITY, "mesh: mesh \"x\" does not exist\n".to_owned()),
            1 => (StatusCode::NOT_FOUND, "404 page not found".to_owned()),
            2 => (StatusCode::OK, "node: {}".to_owned()),
            _ => (StatusCode::OK, r#"{"bootstrap": "***"}"#.to_owned()),
        }
    })
    .await;
    for expected in [
        "Invalid request: mesh: mesh \"x\" does not exist",
        "Invalid request: 404 page not found",
        "is not that of a control plane: expected",
        "the bootstrap is no base64",
    ] {
        let error = Runner::start(options(&control_plane, envoy, folder.path())).await.err().unwrap().to_string();
        assert!(error.contains(expected), "{error}");
    }
    for address in ["http://localhost:5678", "localhost:5678", "https://", "https://cp?x=1"] {
        let mut options = options(&control_plane, envoy, folder.path());
        address.clone_into(&mut options.control_plane);
        assert!(matches!(Runner::start(options).await, Err(RunError::Address { .. })), "{address}");
    }
    let mut options = options(&control_plane, envoy, folder.path());
    options.ca_pem.clear();
    assert!(matches!(Runner::start(options).await, Err(RunError::Ca(_))));
}
