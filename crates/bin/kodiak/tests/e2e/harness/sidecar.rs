//! `kodiak dp run` with a real Envoy.

use std::{
    collections::BTreeSet,
    fs,
    net::{Ipv4Addr, SocketAddr},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
    process::Command,
};

use hyper::{Method, StatusCode};

use super::{
    Answer, ControlPlane, Dataplane, MESH, Network, Process, addresses, eventually, expect, get, get_with,
    http::{self},
    process::signal,
};

/// How long connections have to end; requests here are short.
const DRAIN: &str = "3s";

/// Who runs a proxy, and where the programs are for them.
#[derive(Clone)]
pub(crate) struct User {
    pub(crate) number: &'static str,
    pub(crate) kodiak: PathBuf,
    pub(crate) envoy: PathBuf,
    /// Where it runs, if not here.
    pub(crate) machine: Option<Network>,
}

impl User {
    /// The folder is theirs from now on.
    fn start(&self, folder: &Path) -> Command {
        let Self { number, kodiak, machine, .. } = self;
        let status = Command::new("chown").args(["-R", number]).arg(folder).status().unwrap();
        assert!(status.success(), "chown {number}");
        let mut command =
            machine.as_ref().map_or_else(|| Command::new("setpriv"), |machine| machine.command("setpriv"));
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
        command.arg("--dataplane-token-file").arg(&token_file);
        if dataplane.is_stored {
            command.args(["--mesh", MESH, "--name", &dataplane.name]);
        } else {
            command.arg("--dataplane-file").arg(&file);
        }
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

    /// The clusters that Envoy has.
    pub(crate) async fn clusters(&self) -> BTreeSet<String> {
        let clusters = self.admin("/clusters?format=json").await.unwrap().fine().json();
        let clusters = clusters["cluster_statuses"].as_array().cloned().unwrap_or_default();
        clusters.iter().map(|cluster| cluster["name"].as_str().unwrap().to_owned()).collect()
    }

    /// The listeners that Envoy has.
    pub(crate) async fn listeners(&self) -> BTreeSet<String> {
        let listeners = self.admin("/listeners?format=json").await.unwrap().fine().json();
        let listeners = listeners["listener_statuses"].as_array().cloned().unwrap_or_default();
        listeners.iter().map(|listener| listener["name"].as_str().unwrap().to_owned()).collect()
    }

    /// How many requests went to this cluster; none where there is no such cluster.
    pub(crate) async fn requests_to(&self, cluster: &str) -> Option<u64> {
        let lines = self.stats(&format!("^cluster.{cluster}.upstream_rq_total$")).await;
        lines.first().map(|line| line.rsplit_once(": ").unwrap().1.parse().unwrap())
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
