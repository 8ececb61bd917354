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
    Answer, ControlPlane, MESH, Process, Service, addresses, eventually, expect, get, get_with,
    http::{self},
    process::signal,
};

/// How long connections have to end; requests here are short.
const DRAIN: &str = "3s";

/// One proxy, as the user would write it down.
#[derive(Clone)]
pub(crate) struct Dataplane {
    pub(crate) name: String,
    pub(crate) address: Ipv4Addr,
    inbounds: Vec<Value>,
    /// Where `backend` is called.
    pub(crate) outbound: Option<SocketAddr>,
    /// Where `backend-tcp` is called.
    outbound_tcp: Option<SocketAddr>,
    /// Other services that are called.
    others: Vec<Value>,
}

impl Dataplane {
    /// Serves what this workload serves: as `backend` over HTTP, and as `backend-tcp` for those who see only bytes.
    pub(crate) fn serving(name: &str, workload: &Service) -> Self {
        Self::serving_as("backend", name, workload)
    }

    /// The same, as another service.
    pub(crate) fn serving_as(service: &str, name: &str, workload: &Service) -> Self {
        let address = addresses::loopback();
        let tcp = format!("{service}-tcp");
        let served = [(service, "http", workload.address), (&tcp, "tcp", workload.address_tcp)];
        let inbounds = served.map(|(service, protocol, served)| {
            json!({
                "port": addresses::port(address),
                "serviceAddress": served.ip(),
                "servicePort": served.port(),
                "tags": { "kuma.io/service": service, "kuma.io/protocol": protocol },
            })
        });
        Self { name: name.to_owned(), address, inbounds: inbounds.into(), ..Self::at(name, address) }
    }

    /// Calls `backend` and `backend-tcp`, and serves nothing that anybody calls.
    pub(crate) fn calling(name: &str) -> Self {
        let address = addresses::loopback();
        let outbound = || Some(SocketAddr::from((address, addresses::port(address))));
        Self { outbound: outbound(), outbound_tcp: outbound(), ..Self::at(name, address) }
    }

    /// At this address, and calling others by their names.
    pub(crate) fn at(name: &str, address: Ipv4Addr) -> Self {
        let inbound = json!({ "port": addresses::port(address), "tags": { "kuma.io/service": name } });
        Self {
            name: name.to_owned(),
            address,
            inbounds: vec![inbound],
            outbound: None,
            outbound_tcp: None,
            others: Vec::new(),
        }
    }

    /// Calls this service too.
    pub(crate) fn also_calling(mut self, service: &str) -> Self {
        let port = addresses::port(self.address);
        let tags = json!({ "kuma.io/service": service });
        self.others.push(json!({ "address": self.address, "port": port, "tags": tags }));
        self
    }

    /// With one more tag, wherever it has tags.
    pub(crate) fn tagged(mut self, key: &str, value: &str) -> Self {
        for inbound in &mut self.inbounds {
            inbound["tags"][key] = value.into();
        }
        self
    }

    /// With the workload of `backend` here, and a probe of it.
    pub(crate) fn probed(mut self, workload: SocketAddr) -> Self {
        let inbound = &mut self.inbounds[0];
        inbound["serviceAddress"] = json!(workload.ip());
        inbound["servicePort"] = json!(workload.port());
        inbound["serviceProbe"] = json!({ "tcp": {} });
        self
    }

    /// Where Envoy takes requests for the workload.
    pub(crate) fn inbound(&self) -> SocketAddr {
        self.address_of(&self.inbounds[0])
    }

    /// Where Envoy takes connections for the workload, and does not know what they carry.
    pub(crate) fn inbound_tcp(&self) -> SocketAddr {
        self.address_of(&self.inbounds[1])
    }

    fn address_of(&self, inbound: &Value) -> SocketAddr {
        SocketAddr::from((self.address, u16::try_from(inbound["port"].as_u64().unwrap()).unwrap()))
    }

    pub(crate) fn document(&self) -> Value {
        let outbounds = [("backend", self.outbound), ("backend-tcp", self.outbound_tcp)];
        let outbounds = outbounds.into_iter().filter_map(|(service, outbound)| {
            let (outbound, tags) = (outbound?, json!({ "kuma.io/service": service }));
            Some(json!({ "address": outbound.ip(), "port": outbound.port(), "tags": tags }))
        });
        let outbounds: Vec<_> = outbounds.chain(self.others.iter().cloned()).collect();
        json!({
            "type": "Dataplane", "mesh": MESH, "name": self.name,
            "networking": { "address": self.address, "inbound": self.inbounds, "outbound": outbounds },
        })
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

    /// The same, for this path and with these headers.
    pub(crate) async fn call_with(&self, path: &str, headers: &[(&str, &str)]) -> Result<Answer, String> {
        get_with(self.outbound(), path, headers).await
    }

    pub(crate) fn outbound(&self) -> SocketAddr {
        self.dataplane.outbound.expect("it calls others")
    }

    /// Where each connection becomes one to the other proxy: with mTLS, one more handshake.
    pub(crate) fn outbound_tcp(&self) -> SocketAddr {
        self.dataplane.outbound_tcp.expect("it calls others")
    }

    /// Stops Envoy until the guard is dropped. Who calls it waits, and what the control plane tells it, it hears later.
    pub(crate) fn stall(&self) -> Stalled {
        Stalled::new(self.process.only_child())
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

    /// Of the counters whose names match, of which there must be some.
    pub(crate) async fn sum_of(&self, filter: &str) -> u64 {
        let lines = self.stats(filter).await;
        assert!(!lines.is_empty(), "nothing is counted as {filter}");
        lines.iter().map(|line| line.rsplit_once(": ").unwrap().1.parse::<u64>().unwrap()).sum()
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

/// An Envoy that does nothing for a while.
pub(crate) struct Stalled(String);

impl Stalled {
    fn new(process: String) -> Self {
        signal("-STOP", &process);
        Self(process)
    }
}

impl Drop for Stalled {
    fn drop(&mut self) {
        // Nothing to be done where it is gone.
        let _ = Command::new("kill").args(["-CONT", &self.0]).status();
    }
}

/// Where workloads listen: not where their proxies do.
pub(crate) fn workload_address() -> Ipv4Addr {
    addresses::loopback()
}
