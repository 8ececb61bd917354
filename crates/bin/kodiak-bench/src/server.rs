//! A control plane as a process of its own, so that its memory and its time are its own.

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
use serde_json::Value;

const PATIENCE: Duration = Duration::from_mins(1);
/// In which Linux tells every program what time a process took, whatever its kernel counts in.
const TICKS_A_SECOND: f64 = 100.0;

pub(super) struct Server {
    child: Child,
    pub(super) api: SocketAddr,
    /// Where proxies connect.
    pub(super) proxies: SocketAddr,
    diagnostics: SocketAddr,
    client: Client<HttpConnector, Full<Bytes>>,
}

impl Server {
    /// Starts it on this folder and waits until it is ready; also how long that took.
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
            .args(["--set", "log.level=error"])
            .stdin(Stdio::null())
            .spawn()
            .context("cannot start the control plane")?;
        let client = Client::builder(TokioExecutor::new()).build_http();
        let mut server = Self { child, api, proxies, diagnostics, client };
        while server.get(diagnostics, "/ready").await.map_or(true, |(status, _)| status != 200) {
            anyhow::ensure!(server.child.try_wait()?.is_none(), "the control plane ended by itself");
            anyhow::ensure!(started.elapsed() < PATIENCE, "the control plane did not become ready");
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        Ok((server, started.elapsed()))
    }

    /// Loads a file as users do it.
    pub(super) fn apply(&self, file: &Path) -> anyhow::Result<()> {
        let output = Command::new(std::env::current_exe()?)
            .args(["--cp", &format!("http://{}", self.api), "-q", "apply", "-f"])
            .arg(file)
            .output()
            .context("cannot run apply")?;
        anyhow::ensure!(output.status.success(), "apply failed: {}", String::from_utf8_lossy(&output.stderr));
        Ok(())
    }

    /// The status and the length of the answer.
    pub(super) async fn get_api(&self, path: &str) -> anyhow::Result<(u16, usize)> {
        let (status, body) = self.get(self.api, path).await?;
        Ok((status, body.len()))
    }

    /// Writes through the API; the answer must be a good one.
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

    /// The most that it ever was, in MiB.
    pub(super) fn peak_memory(&self) -> anyhow::Result<f64> {
        memory_of(self.child.id(), "VmHWM:")
    }

    /// The time that it took on all cores, in seconds.
    pub(super) fn cpu(&self) -> anyhow::Result<f64> {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.child.id()))?;
        // The name of the program comes second and may hold anything, but ends with the last bracket.
        let (_, after) = stat.rsplit_once(')').context("no stat")?;
        let ticks = after.split_whitespace().skip(11).take(2).map(str::parse::<f64>);
        let ticks: Vec<f64> = ticks.collect::<Result<_, _>>()?;
        Ok(ticks.iter().sum::<f64>() / TICKS_A_SECOND)
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

/// Of any process, in MiB; the key says what of it.
pub(super) fn memory_of(process: u32, key: &str) -> anyhow::Result<f64> {
    let status = fs::read_to_string(format!("/proc/{process}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix(key)).with_context(|| format!("no {key}"))?;
    let kib: f64 = line.trim().trim_end_matches(" kB").parse()?;
    Ok(kib / 1024.0)
}

/// What was counted until one moment.
pub(super) struct Metrics(String);

impl Metrics {
    /// The values of a metric, summed over its labels that hold `part`.
    pub(super) fn sum(&self, name: &str, part: &str) -> f64 {
        let lines = self.0.lines().filter(|line| line.starts_with(name) && line.contains(part));
        lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
    }
}

/// Three that differ: each is taken until all are known.
fn free_ports() -> anyhow::Result<[SocketAddr; 3]> {
    let take = || TcpListener::bind(("127.0.0.1", 0));
    let taken = [take()?, take()?, take()?];
    let [first, second, third] = taken.each_ref().map(TcpListener::local_addr);
    Ok([first?, second?, third?])
}
