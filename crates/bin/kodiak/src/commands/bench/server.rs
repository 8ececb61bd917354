//! A control plane as a process of its own, so that its memory and its time are its own.

use std::{
    fs,
    net::{SocketAddr, TcpListener},
    path::Path,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::Context as _;
use http_body_util::{BodyExt as _, Empty};
use hyper::body::Bytes;
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};

const PATIENCE: Duration = Duration::from_mins(1);

pub(super) struct Server {
    child: Child,
    pub(super) api: SocketAddr,
    diagnostics: SocketAddr,
    client: Client<HttpConnector, Empty<Bytes>>,
}

impl Server {
    /// Starts it on this folder and waits until it is ready; also how long that took.
    pub(super) async fn start(folder: &Path) -> anyhow::Result<(Self, Duration)> {
        let (api, diagnostics) = (free_port()?, free_port()?);
        let started = Instant::now();
        let child = Command::new(std::env::current_exe()?)
            .args(["run", "--data-dir"])
            .arg(folder)
            .args(["--set", &format!("apiServer.http.port={}", api.port())])
            .args(["--set", "apiServer.https.enabled=false"])
            .args(["--set", "diagnostics.interface=127.0.0.1"])
            .args(["--set", &format!("diagnostics.serverPort={}", diagnostics.port())])
            .args(["--set", "log.level=error"])
            .stdin(Stdio::null())
            .spawn()
            .context("cannot start the control plane")?;
        let client = Client::builder(TokioExecutor::new()).build_http();
        let mut server = Self { child, api, diagnostics, client };
        while server.get(diagnostics, "/ready").await.map_or(true, |(status, _)| status != 200) {
            anyhow::ensure!(server.child.try_wait()?.is_none(), "the control plane ended by itself");
            anyhow::ensure!(started.elapsed() < PATIENCE, "the control plane did not become ready");
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        Ok((server, started.elapsed()))
    }

    /// The status and the length of the answer.
    pub(super) async fn get_api(&self, path: &str) -> anyhow::Result<(u16, usize)> {
        let (status, body) = self.get(self.api, path).await?;
        Ok((status, body.len()))
    }

    async fn get(&self, address: SocketAddr, path: &str) -> anyhow::Result<(u16, Bytes)> {
        let response = self.client.get(format!("http://{address}{path}").parse()?).await?;
        let status = response.status().as_u16();
        Ok((status, response.into_body().collect().await?.to_bytes()))
    }

    /// The values of a metric, summed over its labels that hold `part`.
    pub(super) async fn metric(&self, name: &str, part: &str) -> anyhow::Result<f64> {
        let (_, text) = self.get(self.diagnostics, "/metrics").await?;
        let text = String::from_utf8_lossy(&text).into_owned();
        let lines = text.lines().filter(|line| line.starts_with(name) && line.contains(part));
        Ok(lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum())
    }

    /// Resident memory in MiB.
    pub(super) fn memory(&self) -> anyhow::Result<f64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS")?;
        let kib: f64 = line.trim().trim_end_matches(" kB").parse()?;
        Ok(kib / 1024.0)
    }

    /// Ends it as a supervisor would.
    pub(super) async fn stop(mut self) -> anyhow::Result<()> {
        let pid = self.child.id().to_string();
        Command::new("kill").args(["-TERM", &pid]).status().context("cannot run kill")?;
        let deadline = Instant::now() + PATIENCE;
        while self.child.try_wait()?.is_none() {
            anyhow::ensure!(Instant::now() < deadline, "the control plane did not stop");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn free_port() -> anyhow::Result<SocketAddr> {
    Ok(TcpListener::bind(("127.0.0.1", 0))?.local_addr()?)
}
