//! Control plane in a child process, so that its memory and CPU time are measured separately.

use std::{
    fs,
    net::{SocketAddr, TcpListener},
    path::Path,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::Context as _;
use http_body_util::{BodyExt as _, Full};
use hyper::{Method, Request, body::Bytes, header::CONTENT_TYPE};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use serde_json::{Value, json};

/// Reconciliation is complete when nothing was written for this long.
const QUIET: Duration = Duration::from_millis(500);
const PATIENCE: Duration = Duration::from_mins(1);
/// USER_HZ: unit of CPU time in /proc, independent of the kernel configuration.
const TICKS_A_SECOND: f64 = 100.0;

pub(super) struct Server {
    child: Child,
    pub(super) api: SocketAddr,
    /// Address for proxies.
    pub(super) proxies: SocketAddr,
    diagnostics: SocketAddr,
    client: Client<HttpConnector, Full<Bytes>>,
}

impl Server {
    /// Starts it with this data directory, and waits until it is ready. Also returns the time.
    pub(super) async fn start(folder: &Path) -> anyhow::Result<(Self, Duration)> {
        let [api, proxies, diagnostics] = free_ports()?;
        let started = Instant::now();
        let child = Command::new(std::env::current_exe()?)
            .args(["run", "--data-dir"])
            .arg(folder)
            .args(["--set", &format!("apiServer.http.port={}", api.port())])
            .args(["--set", "apiServer.https.enabled=false"])
            .args(["--set", "dpServer.interface=127.0.0.1"])
            .args(["--set", &format!("dpServer.port={}", proxies.port())])
            .args(["--set", "diagnostics.interface=127.0.0.1"])
            .args(["--set", &format!("diagnostics.serverPort={}", diagnostics.port())])
            .args(["--set", "diagnostics.healthPort=0"])
            .args(["--set", "monitoringAssignmentServer.port=0"])
            .args(["--set", "log.level=error"])
            .stdin(Stdio::null())
            .spawn()
            .context("cannot start the control plane")?;
        let client = Client::builder(TokioExecutor::new()).build_http();
        let mut server = Self { child, api, proxies, diagnostics, client };
        while server.get(diagnostics, "/ready").await.map_or(true, |(status, _)| status != 200) {
            anyhow::ensure!(server.child.try_wait()?.is_none(), "control plane exited");
            anyhow::ensure!(started.elapsed() < PATIENCE, "control plane did not become ready");
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        Ok((server, started.elapsed()))
    }

    /// Applies a file with `kodiak apply`.
    pub(super) fn apply(&self, file: &Path) -> anyhow::Result<()> {
        let output = Command::new(std::env::current_exe()?)
            .args(["--cp", &format!("http://{}", self.api), "-q", "apply", "-f"])
            .arg(file)
            .output()
            .context("cannot run apply")?;
        anyhow::ensure!(output.status.success(), "apply failed: {}", String::from_utf8_lossy(&output.stderr));
        Ok(())
    }

    /// Status and length of the response.
    pub(super) async fn get_api(&self, path: &str) -> anyhow::Result<(u16, usize)> {
        let (status, body) = self.get(self.api, path).await?;
        Ok((status, body.len()))
    }

    /// Writes through the API; any status but 2xx is an error.
    pub(super) async fn write_api(&self, method: Method, path: &str, body: &Value) -> anyhow::Result<Bytes> {
        let request = Request::builder()
            .method(method)
            .uri(format!("http://{}{path}", self.api))
            .header(CONTENT_TYPE, "application/json")
            .body(Full::from(body.to_string()))?;
        let (status, answer) = self.send(request).await?;
        anyhow::ensure!(status < 300, "{path} answered {status}: {}", String::from_utf8_lossy(&answer));
        Ok(answer)
    }

    /// Token for all proxies of the mesh.
    pub(super) async fn dataplane_token(&self, mesh: &str) -> anyhow::Result<String> {
        let request = json!({ "mesh": mesh, "validFor": "24h" });
        let token = self.write_api(Method::POST, "/tokens/dataplane", &request).await?;
        Ok(String::from_utf8(token.to_vec())?.trim().to_owned())
    }

    /// Waits until the control plane stops writing: reconciliation is complete.
    pub(super) async fn quiet(&self) -> anyhow::Result<()> {
        let commits = || self.metric("kodiak_store_commits_total", "");
        let mut seen = commits().await?;
        loop {
            tokio::time::sleep(QUIET).await;
            let now = commits().await?;
            if now <= seen {
                return Ok(());
            }
            seen = now;
        }
    }

    async fn get(&self, address: SocketAddr, path: &str) -> anyhow::Result<(u16, Bytes)> {
        self.send(Request::get(format!("http://{address}{path}")).body(Full::default())?).await
    }

    async fn send(&self, request: Request<Full<Bytes>>) -> anyhow::Result<(u16, Bytes)> {
        let response = self.client.request(request).await?;
        let status = response.status().as_u16();
        Ok((status, response.into_body().collect().await?.to_bytes()))
    }

    pub(super) async fn metrics(&self) -> anyhow::Result<Metrics> {
        let (_, text) = self.get(self.diagnostics, "/metrics").await?;
        Ok(Metrics(String::from_utf8_lossy(&text).into_owned()))
    }

    pub(super) async fn metric(&self, name: &str, part: &str) -> anyhow::Result<f64> {
        Ok(self.metrics().await?.sum(name, part))
    }

    /// Resident memory in MiB.
    pub(super) fn memory(&self) -> anyhow::Result<f64> {
        memory_of(self.child.id(), "VmRSS:")
    }

    /// Peak resident memory in MiB.
    pub(super) fn peak_memory(&self) -> anyhow::Result<f64> {
        memory_of(self.child.id(), "VmHWM:")
    }

    /// CPU time on all cores, in seconds.
    pub(super) fn cpu(&self) -> anyhow::Result<f64> {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.child.id()))?;
        // The second field, the name of the program, may hold anything, but ends with the last bracket.
        let (_, after) = stat.rsplit_once(')').context("no stat")?;
        let ticks = after.split_whitespace().skip(11).take(2).map(str::parse::<f64>);
        let ticks: Vec<f64> = ticks.collect::<Result<_, _>>()?;
        Ok(ticks.iter().sum::<f64>() / TICKS_A_SECOND)
    }

    /// Stops it with SIGTERM.
    pub(super) async fn stop(mut self) -> anyhow::Result<()> {
        let pid = self.child.id().to_string();
        Command::new("kill").args(["-TERM", &pid]).status().context("cannot run kill")?;
        let deadline = Instant::now() + PATIENCE;
        while self.child.try_wait()?.is_none() {
            anyhow::ensure!(Instant::now() < deadline, "control plane did not stop");
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

/// Memory of a process in MiB; `key` is the line of /proc/PID/status.
pub(super) fn memory_of(process: u32, key: &str) -> anyhow::Result<f64> {
    let status = fs::read_to_string(format!("/proc/{process}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix(key)).with_context(|| format!("no {key}"))?;
    let kib: f64 = line.trim().trim_end_matches(" kB").parse()?;
    Ok(kib / 1024.0)
}

/// Metrics at one point in time.
pub(super) struct Metrics(String);

impl Metrics {
    /// Sum of a metric over its series with `part` in their labels.
    pub(super) fn sum(&self, name: &str, part: &str) -> f64 {
        let lines = self.0.lines().filter(|line| line.starts_with(name) && line.contains(part));
        lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
    }
}

/// Distinct ports: all are bound until the last one is known.
pub(super) fn free_ports<const N: usize>() -> anyhow::Result<[SocketAddr; N]> {
    let mut taken = Vec::new();
    let mut addresses = [SocketAddr::from(([127, 0, 0, 1], 0)); N];
    for address in &mut addresses {
        let listener = TcpListener::bind(*address)?;
        *address = listener.local_addr()?;
        taken.push(listener);
    }
    Ok(addresses)
}
