//! One proxy of the demo: a real Envoy, run as `kodiak dp run` does.

use std::future::ready;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use kodiak_client::Client;
use kodiak_dp::run::{self, Options, Runner, Token};
use serde_json::json;

use super::call::{Caller, Connection};
use super::graph::Instance;
use super::resources::{MESH, Ports, dataplane};

const PATIENCE: Duration = Duration::from_mins(1);
const PAUSE: Duration = Duration::from_millis(50);
/// Characters to show of the log of an Envoy that exited.
const LAST_LINES: usize = 10;

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
    runner: Runner,
    log: PathBuf,
}

impl DemoProxy {
    /// Returns when Envoy is started, before it is ready.
    pub(super) async fn start(instance: &Instance, ports: &Ports, common: &Common<'_>) -> anyhow::Result<Self> {
        let name = instance.name.clone();
        let asked = json!({"name": name, "mesh": MESH, "type": "dataplane", "validFor": "24h"});
        let token = common.api.token("/tokens/dataplane", &asked).await?;
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
        Ok(Self { name, runner, log })
    }

    /// Waits until Envoy is live.
    pub(super) async fn ready(&self, caller: &Caller) -> anyhow::Result<()> {
        let uri = format!("http://{}/ready", self.runner.readiness_address());
        let asked = async {
            loop {
                let answer = caller.get(uri.parse()?, Connection::Fresh).await;
                if answer.is_ok_and(|answer| answer.status.is_success()) {
                    return Ok(());
                }
                tokio::time::sleep(PAUSE).await;
            }
        };
        tokio::select! {
            ready = tokio::time::timeout(PATIENCE, asked) => {
                ready.with_context(|| format!("proxy {} is not ready after {PATIENCE:?}{}", self.name, self.tail()))?
            }
            ended = self.ended() => Err(ended),
        }
    }

    /// Waits until Envoy exits unexpectedly.
    pub(super) async fn ended(&self) -> anyhow::Error {
        let status = self.runner.ended().await;
        anyhow::anyhow!("the Envoy of {} ended by itself ({status}){}", self.name, self.tail())
    }

    /// Stops without draining: there is no traffic any more.
    pub(super) async fn stop(self) {
        self.runner.stop_sooner_on(ready(())).await;
    }

    fn tail(&self) -> String {
        let bytes = std::fs::read(&self.log).unwrap_or_default();
        let text = String::from_utf8_lossy(&bytes);
        let lines: Vec<_> = text.lines().collect();
        let last = &lines[lines.len().saturating_sub(LAST_LINES)..];
        last.iter().fold("; the last that it printed:".to_owned(), |tail, line| format!("{tail}\n  {line}"))
    }
}
