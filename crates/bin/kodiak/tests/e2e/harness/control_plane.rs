//! `kodiak run`, on ports that stay the same over restarts.

use std::{
    fs,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use hyper::{Method, StatusCode};
use jiff::Timestamp;
use kodiak_crypto::{ServerCertParams, self_signed_server};
use serde_json::{Value, json};

use super::{
    Process, addresses, eventually, expect,
    http::{self, Answer},
};

/// Where it is asked by people.
const HOST: Ipv4Addr = Ipv4Addr::LOCALHOST;

/// Settings that differ from those of most tests.
#[derive(Clone, Copy)]
pub(crate) struct Setup {
    /// Where proxies connect.
    pub(crate) host: Ipv4Addr,
    pub(crate) settings: &'static [&'static str],
    /// Variables of its environment.
    pub(crate) environment: &'static [(&'static str, &'static str)],
}

impl Setup {
    pub(crate) const DEFAULT: Self = Self { host: HOST, settings: &[], environment: &[] };
}

impl Default for Setup {
    fn default() -> Self {
        Self::DEFAULT
    }
}

pub(crate) struct ControlPlane {
    process: Process,
    folder: PathBuf,
    place: Place,
}

/// Where it is: it is there again when it comes back.
#[derive(Clone, Copy)]
struct Place {
    setup: Setup,
    zone: &'static str,
    api: u16,
    proxies: u16,
    diagnostics: u16,
    monitoring: u16,
}

impl ControlPlane {
    /// With its files in this folder.
    pub(crate) async fn start(folder: &Path, setup: Setup) -> Self {
        let port = || addresses::port(HOST);
        let place =
            Place { setup, zone: "default", api: port(), proxies: port(), diagnostics: port(), monitoring: port() };
        if setup.host != HOST {
            certify(folder, setup.host);
        }
        let folder = folder.to_owned();
        let started = Self { process: run(&folder, place), folder, place };
        started.wait_until_ready().await;
        started
    }

    /// Ends it as a crash would, and gives what is needed to start it again.
    pub(crate) fn kill(self) -> Killed {
        let Self { process, folder, place } = self;
        process.signal("-KILL");
        process.ended();
        Killed { folder, place }
    }

    async fn wait_until_ready(&self) {
        eventually("the control plane is ready", async || {
            let ready = http::get(self.diagnostics(), "/ready").await?;
            expect(ready.status == StatusCode::OK, ready)
        })
        .await;
    }

    /// Where proxies connect.
    pub(crate) fn url(&self) -> String {
        format!("https://{}:{}", self.place.setup.host, self.place.proxies)
    }

    pub(crate) fn certificate(&self) -> PathBuf {
        self.folder.join("kodiak.crt")
    }

    pub(crate) fn log(&self) -> &Process {
        &self.process
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.send(Method::GET, path, String::new()).await
    }

    pub(crate) async fn put(&self, path: &str, body: &Value) {
        self.send(Method::PUT, path, body.to_string()).await.fine();
    }

    pub(crate) async fn delete(&self, path: &str) {
        self.send(Method::DELETE, path, String::new()).await.fine();
    }

    pub(crate) async fn token(&self, mesh: &str, name: &str, valid_for: &str) -> String {
        let claims = json!({ "mesh": mesh, "name": name, "validFor": valid_for });
        self.send(Method::POST, "/tokens/dataplane", claims.to_string()).await.fine().text
    }

    /// All metrics.
    pub(crate) async fn metrics(&self) -> String {
        http::get(self.diagnostics(), "/metrics").await.unwrap().fine().text
    }

    /// The value of a metric without labels.
    pub(crate) async fn metric(&self, name: &str) -> u64 {
        let text = self.metrics().await;
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("there is no {name} in {text}")).parse().unwrap()
    }

    /// Where people ask.
    pub(crate) fn api(&self) -> SocketAddr {
        SocketAddr::from((HOST, self.place.api))
    }

    /// Discovery for Prometheus.
    pub(crate) fn monitoring(&self) -> SocketAddr {
        SocketAddr::from((HOST, self.place.monitoring))
    }

    /// May be refused.
    pub(crate) async fn try_put(&self, path: &str, body: &Value) -> Result<Answer, String> {
        http::send(self.api(), Method::PUT, path, body.to_string()).await
    }

    /// Where proxies connect.
    pub(crate) fn proxy_port(&self) -> u16 {
        self.place.proxies
    }

    async fn send(&self, method: Method, path: &str, body: String) -> Answer {
        http::send(self.api(), method, path, body).await.unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    fn diagnostics(&self) -> SocketAddr {
        SocketAddr::from((HOST, self.place.diagnostics))
    }
}

/// A control plane of which only the files are left.
pub(crate) struct Killed {
    folder: PathBuf,
    place: Place,
}

impl Killed {
    /// In another zone, with the same files.
    pub(crate) fn moved_to(mut self, zone: &'static str) -> Self {
        self.place.zone = zone;
        self
    }

    /// With other variables in its environment.
    pub(crate) fn with_environment(mut self, environment: &'static [(&'static str, &'static str)]) -> Self {
        self.place.setup.environment = environment;
        self
    }

    pub(crate) async fn start_again(self) -> ControlPlane {
        let Self { folder, place } = self;
        let started = ControlPlane { process: run(&folder, place), folder, place };
        started.wait_until_ready().await;
        started
    }
}

fn run(folder: &Path, place: Place) -> Process {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kodiak"));
    command.arg("run").arg("--data-dir").arg(folder).current_dir(folder).env("HOME", folder).env_remove("RUST_LOG");
    let Place { setup: Setup { host, settings: more, environment }, zone, api, proxies, diagnostics, monitoring } =
        place;
    command.envs(environment.iter().copied());
    let settings = [
        format!("multizone.zone.name={zone}"),
        format!("apiServer.http.port={api}"),
        "apiServer.https.enabled=false".to_owned(),
        format!("dpServer.interface={host}"),
        format!("dpServer.port={proxies}"),
        format!("diagnostics.interface={HOST}"),
        format!("diagnostics.serverPort={diagnostics}"),
        "diagnostics.healthPort=0".to_owned(),
        format!("monitoringAssignmentServer.interface={HOST}"),
        format!("monitoringAssignmentServer.port={monitoring}"),
        // A proxy that leaves is gone soon, and what is known of one is written soon.
        "xdsServer.dataplaneDeregistrationDelaySeconds=2".to_owned(),
        "xdsServer.dataplaneStatusFlushIntervalSeconds=1".to_owned(),
    ];
    for setting in settings.iter().map(String::as_str).chain(more.iter().copied()) {
        command.arg("--set").arg(setting);
    }
    Process::start(&mut command)
}

/// The certificate that it makes for itself is for this machine only.
fn certify(folder: &Path, host: Ipv4Addr) {
    let (hostnames, ips) = (&[], &[IpAddr::V4(host)]);
    let params = ServerCertParams { hostnames, ips, valid_for: Duration::from_hours(24), now: Timestamp::now() };
    let pair = self_signed_server(&params).unwrap();
    fs::write(folder.join("kodiak.crt"), &pair.cert_pem).unwrap();
    fs::write(folder.join("kodiak.key"), pair.key_pem.expose()).unwrap();
}
