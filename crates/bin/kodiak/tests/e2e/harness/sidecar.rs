//! `kodiak dp run` with a real Envoy.

use std::{
    fs,
    net::{Ipv4Addr, SocketAddr},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
    process::Command,
};

use hyper::{Method, StatusCode};
use serde_json::{Value, json};

use super::{
    Answer, ControlPlane, MESH, Process, Service, addresses, eventually, expect, get,
    http::{self},
};

/// How long connections have to end; requests here are short.
const DRAIN: &str = "3s";

/// One proxy, as the user would write it down.
#[derive(Clone)]
pub(crate) struct Dataplane {
    pub(crate) name: String,
    pub(crate) address: Ipv4Addr,
    inbound: Value,
    /// Where `backend` is called.
    pub(crate) outbound: Option<SocketAddr>,
}

impl Dataplane {
    /// Serves what this workload serves, under the name `service`.
    pub(crate) fn serving(name: &str, service: &str, workload: &Service) -> Self {
        let address = addresses::loopback();
        let inbound = json!({
            "port": addresses::port(address),
            "serviceAddress": workload.address.ip(),
            "servicePort": workload.address.port(),
            "tags": { "kuma.io/service": service, "kuma.io/protocol": "http" },
        });
        Self { name: name.to_owned(), address, inbound, outbound: None }
    }

    /// Calls `backend`, and serves nothing that anybody calls.
    pub(crate) fn calling(name: &str) -> Self {
        let address = addresses::loopback();
        let outbound = Some(SocketAddr::from((address, addresses::port(address))));
        Self { outbound, ..Self::at(name, address) }
    }

    /// At this address, and calling others by their names.
    pub(crate) fn at(name: &str, address: Ipv4Addr) -> Self {
        let inbound = json!({ "port": addresses::port(address), "tags": { "kuma.io/service": name } });
        Self { name: name.to_owned(), address, inbound, outbound: None }
    }

    /// Where Envoy takes requests for the workload.
    pub(crate) fn inbound(&self) -> SocketAddr {
        SocketAddr::from((self.address, u16::try_from(self.inbound["port"].as_u64().unwrap()).unwrap()))
    }

    fn document(&self) -> Value {
        let mut document = json!({
            "type": "Dataplane", "mesh": MESH, "name": self.name,
            "networking": { "address": self.address, "inbound": [self.inbound] },
        });
        if let Some(outbound) = self.outbound {
            let tags = json!({ "kuma.io/service": "backend" });
            let outbound = json!({ "address": outbound.ip(), "port": outbound.port(), "tags": tags });
            document["networking"]["outbound"] = json!([outbound]);
        }
        document
    }
}

/// Who runs a proxy, and where the programs are for them.
pub(crate) struct User {
    pub(crate) number: &'static str,
    pub(crate) kodiak: PathBuf,
    pub(crate) envoy: PathBuf,
}

impl User {
    /// The folder is theirs from now on.
    fn start(&self, folder: &Path) -> Command {
        let Self { number, kodiak, .. } = self;
        let status = Command::new("chown").args(["-R", number]).arg(folder).status().unwrap();
        assert!(status.success(), "chown {number}");
        let mut command = Command::new("setpriv");
        command.args([format!("--reuid={number}"), format!("--regid={number}")]);
        command.args(["--clear-groups", "--"]).arg(kodiak);
        command
    }
}

pub(crate) struct Sidecar {
    pub(crate) dataplane: Dataplane,
    process: Process,
    work_dir: PathBuf,
}

impl Sidecar {
    /// Runs until it is dropped. Its files are in a folder of its own below this one.
    pub(crate) fn run(
        control_plane: &ControlPlane,
        folder: &Path,
        dataplane: Dataplane,
        token: &str,
        more: &[&str],
    ) -> Self {
        Self::run_as(None, control_plane, folder, dataplane, token, more)
    }

    pub(crate) fn run_as(
        user: Option<&User>,
        control_plane: &ControlPlane,
        folder: &Path,
        dataplane: Dataplane,
        token: &str,
        more: &[&str],
    ) -> Self {
        let work_dir = folder.join(&dataplane.name);
        fs::create_dir_all(&work_dir).unwrap();
        let (token_file, file) = (work_dir.join("token"), work_dir.join("dataplane.json"));
        let mut private = fs::OpenOptions::new();
        private.write(true).create(true).truncate(true).mode(0o600);
        std::io::Write::write_all(&mut private.open(&token_file).unwrap(), token.as_bytes()).unwrap();
        fs::write(&file, dataplane.document().to_string()).unwrap();
        let envoy = kodiak_testkit::envoy::envoy().expect("tests look for it before they start");
        let envoy = user.map_or(envoy, |user| &user.envoy);
        let mut command = user.map_or_else(|| Command::new(env!("CARGO_BIN_EXE_kodiak")), |user| user.start(&work_dir));
        command.args(["dp", "run", "--no-color", "--cp-address", &control_plane.url()]);
        command.arg("--ca-cert-file").arg(control_plane.certificate());
        command.arg("--dataplane-file").arg(&file).arg("--dataplane-token-file").arg(&token_file);
        command.arg("--envoy").arg(envoy).arg("--work-dir").arg(work_dir.join("w"));
        command.args(["--concurrency", "1", "--readiness-port", "0", "--drain-time", DRAIN]);
        command.args(["--envoy-log-level", "warning"]).args(more);
        command.current_dir(&work_dir).env("HOME", &work_dir).env_remove("RUST_LOG");
        let process = Process::start(&mut command);
        Self { dataplane, process, work_dir: work_dir.join("w") }
    }

    pub(crate) async fn wait_until_ready(&self) {
        eventually(&format!("{} is ready", self.dataplane.name), async || {
            let ready = self.admin("/ready").await?;
            expect(ready.status == StatusCode::OK, (ready, self.process.printed()))
        })
        .await;
    }

    /// Calls `backend` once, through this proxy.
    pub(crate) async fn call(&self) -> Result<Answer, String> {
        get(self.outbound(), "/").await
    }

    pub(crate) fn outbound(&self) -> SocketAddr {
        self.dataplane.outbound.expect("it calls others")
    }

    /// Asks Envoy about itself.
    pub(crate) async fn admin(&self, path: &str) -> Result<Answer, String> {
        http::ask(&self.work_dir.join("kuma-envoy-admin.sock"), Method::GET, path).await
    }

    /// The counters of Envoy whose names match, as they are printed.
    pub(crate) async fn stats(&self, filter: &str) -> Vec<String> {
        let answer = self.admin(&format!("/stats?filter={filter}")).await.unwrap().fine();
        answer.text.lines().map(str::to_owned).collect()
    }

    pub(crate) fn process(&mut self) -> &mut Process {
        &mut self.process
    }

    /// Tells it to end, as whoever supervises it does. It drains first.
    pub(crate) fn terminate(&self) {
        self.process.signal("-TERM");
    }

    /// Waits until it is over.
    pub(crate) async fn ended(self) -> (std::process::ExitStatus, String) {
        let process = self.process;
        tokio::task::spawn_blocking(move || process.ended()).await.unwrap()
    }
}

/// Where workloads listen: not where their proxies do.
pub(crate) fn workload_address() -> Ipv4Addr {
    addresses::loopback()
}
