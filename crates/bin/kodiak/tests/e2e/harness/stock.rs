//! Sidecar process that behaves like kuma-dp: it asks for a bootstrap, starts Envoy, and when it ends it fails Envoy's
//! health checks, waits for the drain time and stops Envoy. It never calls `/drain`.

use std::{
    fs,
    net::SocketAddr,
    path::PathBuf,
    process::{Command, Stdio},
    sync::Arc,
    time::Duration,
};

use hyper::{Method, header::ACCEPT};
use hyper_util::rt::TokioIo;
use serde_json::json;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::{Dataplane, MESH, Mesh, Process, eventually, expect, http};

/// Name of the control plane in its certificate.
const HOST: &str = "localhost";

pub(crate) struct StockSidecar {
    envoy: Process,
    work_dir: PathBuf,
}

impl StockSidecar {
    /// Returns when Envoy is live.
    pub(crate) async fn run(mesh: &Mesh, dataplane: &Dataplane) -> Self {
        let work_dir = mesh.folder().join(&dataplane.name);
        fs::create_dir_all(&work_dir).unwrap();
        let bootstrap = work_dir.join("bootstrap.yaml");
        fs::write(&bootstrap, Self::bootstrap(mesh, dataplane, &work_dir).await).unwrap();
        let mut command = Command::new(kodiak_testkit::envoy::envoy().expect("tests look for it before they start"));
        command.arg("--config-path").arg(&bootstrap).args(["--drain-time-s", "30", "--drain-strategy", "immediate"]);
        command.args(["--disable-hot-restart", "--concurrency", "1", "--log-level", "warning"]);
        command.current_dir(&work_dir).stdout(Stdio::null());
        let sidecar = Self { envoy: Process::start(&mut command), work_dir };
        eventually(&format!("Envoy of {} is live", dataplane.name), async || {
            let ready = sidecar.admin(Method::GET, "/ready").await?;
            expect(ready.status.is_success(), (ready, sidecar.envoy.printed()))
        })
        .await;
        sidecar
    }

    async fn bootstrap(mesh: &Mesh, dataplane: &Dataplane, work_dir: &std::path::Path) -> String {
        let ca = fs::read_to_string(mesh.control_plane.certificate()).unwrap();
        let token = mesh.control_plane.token(MESH, &dataplane.name, "24h").await;
        let mut request = json!({
            "mesh": MESH, "name": dataplane.name, "proxyType": "dataplane", "dataplaneToken": token, "caCert": ca,
            "version": {
                "kumaDp": { "version": "2.14.3", "gitTag": "v2.14.3", "gitCommit": "", "buildDate": "" },
                "envoy": { "version": "1.40.0", "build": "", "kumaDpCompatible": true },
            },
            "dynamicMetadata": {}, "dnsPort": 0, "readinessPort": 9902, "operatingSystem": "linux",
            "features": ["feature-strict-inbound-ports", "feature-reuse-port"],
            "resources": { "maxHeapSizeBytes": 0 }, "workdir": work_dir,
            "metricsResources": { "certPath": "", "keyPath": "" }, "systemCaPath": "", "ipv6Enabled": false,
        });
        if !dataplane.is_stored {
            request["dataplaneResource"] = json!(dataplane.document().to_string());
        }
        let config = Arc::new(kodiak_crypto::client_config(ca.as_bytes()).unwrap());
        let address = SocketAddr::from(([127, 0, 0, 1], mesh.control_plane.proxy_port()));
        let stream = TcpStream::connect(address).await.unwrap();
        let stream = TlsConnector::from(config).connect(HOST.try_into().unwrap(), stream).await.unwrap();
        let host = format!("{HOST}:{}", address.port());
        let headers = [(ACCEPT.as_str(), "text/x-yaml"), ("content-type", "application/json")];
        let answer =
            http::carry(TokioIo::new(stream), &host, Method::POST, "/bootstrap", &headers, request.to_string());
        answer.await.unwrap().fine().text
    }

    /// As after SIGUSR2: inbound listeners drain, and the process goes on.
    pub(crate) async fn drain_listeners(&self) {
        self.admin(Method::POST, "/drain_listeners?inboundonly&graceful&skip_exit").await.unwrap().fine();
    }

    /// As after SIGTERM.
    pub(crate) async fn end(self, drain_time: Duration) {
        self.fail_health_checks().await;
        tokio::time::sleep(drain_time).await;
        self.envoy.signal("-TERM");
        let envoy = self.envoy;
        let (status, printed) = tokio::task::spawn_blocking(move || envoy.ended()).await.unwrap();
        assert!(status.success(), "{status}: {printed}");
    }

    /// As after SIGKILL of both processes.
    pub(crate) fn kill(self) {
        drop(self);
    }

    /// Makes Envoy pass its health checks again.
    pub(crate) async fn healthy_again(&self) {
        self.admin(Method::POST, "/healthcheck/ok").await.unwrap().fine();
    }

    pub(crate) async fn fail_health_checks(&self) {
        self.admin(Method::POST, "/healthcheck/fail").await.unwrap().fine();
    }

    async fn admin(&self, method: Method, path: &str) -> Result<http::Answer, String> {
        http::ask(&self.work_dir.join("kuma-envoy-admin.sock"), method, path).await
    }
}
