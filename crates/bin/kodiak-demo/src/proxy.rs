//! One proxy of the demo: a real Envoy, run as `kodiak dp run` does.

use std::fs::OpenOptions;
use std::future::ready;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::Context as _;
use kodiak_client::Client;
use kodiak_dp::run::{self, Options, Runner, Token};
use serde_json::json;

use tokio::process::Child;

use super::call::{Caller, Connection};
use super::graph::Instance;
use super::machines::{APPLICATION_PORT, Machine};
use super::resources::{MESH, Ports, dataplane, dataplane_on};

const PATIENCE: Duration = Duration::from_mins(1);
const PAUSE: Duration = Duration::from_millis(50);
/// Characters to show of the log of an Envoy that exited.
const LAST_LINES: usize = 10;

/// CA of the control plane, in its folder.
pub(super) const CA_FILE: &str = "kodiak.crt";

/// Settings shared by all proxies.
pub(super) struct Common<'a> {
    pub(super) envoy: &'a Path,
    pub(super) control_plane: String,
    pub(super) ca_pem: Vec<u8>,
    /// Parent of the folders of the proxies.
    pub(super) folder: &'a Path,
    pub(super) api: &'a Client,
}

pub(super) struct DemoProxy {
    pub(super) name: String,
    sidecar: Sidecar,
    log: PathBuf,
}

enum Sidecar {
    /// In this process.
    Task(Box<Runner>),
    /// `kodiak dp run`, on a machine of its own. Killed when dropped.
    Process(Child),
}

impl DemoProxy {
    /// Returns when Envoy is started, before it is ready.
    pub(super) async fn start(instance: &Instance, ports: &Ports, common: &Common<'_>) -> anyhow::Result<Self> {
        let name = instance.name.clone();
        let token = token(&name, common).await?;
        let resource = dataplane(instance, ports).to_string();
        let proxy = run::Proxy { mesh: MESH.to_owned(), name: name.clone(), resource: Some(resource) };
        let log = common.folder.join(format!("{name}.log"));
        let mut options = Options::new(&common.control_plane, common.ca_pem.clone(), proxy, common.envoy.to_owned());
        options.token = Some(Token { text: token, file: None });
        options.work_dir = Some(common.folder.join(&name));
        options.envoy_output = Some(log.clone());
        "warning".clone_into(&mut options.envoy_log_level);
        options.concurrency = Some(1);
        let runner = Runner::start(options).await.with_context(|| format!("failed to start proxy {name}"))?;
        Ok(Self { name, sidecar: Sidecar::Task(Box::new(runner)), log })
    }

    /// Starts it on a machine whose traffic is redirected.
    pub(super) async fn start_on(machine: &Machine, instance: &Instance, common: &Common<'_>) -> anyhow::Result<Self> {
        let name = instance.name.clone();
        let folder = common.folder.join(&name);
        std::fs::create_dir_all(&folder)?;
        let (token_file, file) = (folder.join("token"), folder.join("dataplane.json"));
        let mut private = OpenOptions::new();
        private.write(true).create_new(true).mode(0o600);
        private.open(&token_file)?.write_all(token(&name, common).await?.as_bytes())?;
        std::fs::write(&file, dataplane_on(instance, machine.address, APPLICATION_PORT).to_string())?;
        let log = common.folder.join(format!("{name}.log"));
        let output = OpenOptions::new().create(true).append(true).open(&log)?;

        let mut command = machine.sidecar();
        command.args(["dp", "run", "--no-color", "--cp-address", &common.control_plane]);
        command.arg("--ca-cert-file").arg(common.folder.join(CA_FILE));
        command.arg("--dataplane-token-file").arg(&token_file).arg("--dataplane-file").arg(&file);
        command.arg("--envoy").arg(common.envoy).arg("--work-dir").arg(folder.join("w"));
        command.args(["--concurrency", "1", "--readiness-port", "0", "--drain-time", "1s"]);
        command.args(["--envoy-log-level", "warning", "--transparent-proxy"]);
        command.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output).process_group(0).kill_on_drop(true);
        let child = command.spawn().with_context(|| format!("failed to start proxy {name}"))?;
        Ok(Self { name, sidecar: Sidecar::Process(child), log })
    }

    /// Waits until Envoy is live. That of another machine cannot be asked: calls through it are waited for later.
    pub(super) async fn ready(&mut self, caller: &Caller) -> anyhow::Result<()> {
        let Sidecar::Task(runner) = &self.sidecar else { return Ok(()) };
        let uri = format!("http://{}/ready", runner.readiness_address());
        let asked = async {
            loop {
                let answer = caller.get(uri.parse()?, Connection::Fresh).await;
                if answer.is_ok_and(|answer| answer.status.is_success()) {
                    return Ok(());
                }
                tokio::time::sleep(PAUSE).await;
            }
        };
        let ready = tokio::select! {
            ready = tokio::time::timeout(PATIENCE, asked) => ready,
            ended = self.ended() => return Err(ended),
        };
        ready.with_context(|| format!("proxy {} is not ready after {PATIENCE:?}{}", self.name, self.tail()))?
    }

    /// Waits until Envoy exits unexpectedly.
    pub(super) async fn ended(&mut self) -> anyhow::Error {
        let status = match &mut self.sidecar {
            Sidecar::Task(runner) => Ok(runner.ended().await),
            Sidecar::Process(child) => child.wait().await,
        };
        match status {
            Ok(status) => anyhow::anyhow!("the Envoy of {} ended by itself ({status}){}", self.name, self.tail()),
            Err(error) => anyhow::Error::from(error).context(format!("failed to wait for proxy {}", self.name)),
        }
    }

    /// Stops without draining: there is no traffic any more.
    pub(super) async fn stop(self) {
        match self.sidecar {
            Sidecar::Task(runner) => {
                runner.stop_sooner_on(ready(())).await;
            }
            // Its Envoy goes with it.
            Sidecar::Process(mut child) => {
                let _ = child.kill().await;
            }
        }
    }

    fn tail(&self) -> String {
        let bytes = std::fs::read(&self.log).unwrap_or_default();
        let text = String::from_utf8_lossy(&bytes);
        let lines: Vec<_> = text.lines().collect();
        let last = &lines[lines.len().saturating_sub(LAST_LINES)..];
        last.iter().fold("; the last that it printed:".to_owned(), |tail, line| format!("{tail}\n  {line}"))
    }
}

async fn token(name: &str, common: &Common<'_>) -> anyhow::Result<String> {
    let asked = json!({"name": name, "mesh": MESH, "type": "dataplane", "validFor": "24h"});
    Ok(common.api.token("/tokens/dataplane", &asked).await?)
}
