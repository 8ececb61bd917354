//! A real Envoy with all destinations of a mesh, and with those that permissions let it call.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::Context as _;
use http_body_util::{BodyExt as _, Empty};
use hyper::{Method, Request, body::Bytes, client::conn::http1};
use hyper_util::rt::TokioIo;
use kodiak_terminal::{Table, Terminal};
use kodiak_xds::names;
use serde_json::{Value, json};
use tokio::net::UnixStream;

use super::mesh::{MESH, Size, name};
use crate::{
    folder::Folder,
    results::millis,
    server::{Server, free_ports, memory_of},
};

const PATIENCE: Duration = Duration::from_mins(2);
/// Label of a Mesh with the mode of trimming, and its values.
const LABEL: &str = "kodiak.io/reachability";
const MODES: [&str; 2] = ["off", "on"];

/// An Envoy that has its first complete configuration.
pub(super) struct MeasuredEnvoy {
    services: usize,
    /// Value of the label.
    mode: &'static str,
    /// From the start of `kodiak dp run` until Envoy is ready.
    ready: Duration,
    /// Resident memory, in MiB.
    memory: f64,
    /// Allocated memory by Envoy's own count, in MiB.
    heap: f64,
    clusters: u64,
    listeners: u64,
    /// Bytes that the control plane sent to it.
    received: u64,
}

/// One Envoy each way, one after the other, with the same control plane.
pub(super) async fn measure(size: Size, program: &Path, terminal: Terminal) -> anyhow::Result<Vec<MeasuredEnvoy>> {
    let folder = Folder::make()?;
    let (server, _) = Server::start(folder.path()).await?;
    terminal.remark(&format!("Loading {} services.", size.services));
    set_mode(&server, MODES[0]).await?;
    let file = folder.path().join("mesh.yaml");
    fs::write(&file, size.documents())?;
    server.apply(&file)?;
    let token = folder.path().join("token");
    fs::write(&token, server.dataplane_token(MESH).await?)?;
    let mut all = Vec::new();
    for mode in MODES {
        terminal.remark(&format!("Starting Envoy with {LABEL}: {mode}."));
        set_mode(&server, mode).await?;
        let own = client(&server).await?;
        // Services have their virtual addresses then.
        server.quiet().await?;
        let started = Instant::now();
        let mut sidecar = Sidecar::start(&own, &server, folder.path(), &token, program)?;
        sidecar.wait_until_ready().await?;
        let ready = started.elapsed();
        all.push(MeasuredEnvoy {
            services: size.services,
            mode,
            ready,
            memory: memory_of(sidecar.envoy()?, "VmRSS:")?,
            heap: mebibytes(sidecar.statistic("server.memory_allocated").await?),
            clusters: sidecar.statistic("cluster_manager.active_clusters").await?,
            listeners: sidecar.statistic("listener_manager.total_listeners_active").await?,
            received: sidecar.statistic("cluster.ads_cluster.upstream_cx_rx_bytes_total").await?,
        });
        sidecar.stop().await?;
    }
    server.stop().await?;
    Ok(all)
}

async fn set_mode(server: &Server, mode: &str) -> anyhow::Result<()> {
    let mesh = json!({
        "type": "Mesh", "name": MESH, "labels": { LABEL: mode }, "skipCreatingInitialPolicies": ["*"],
        "mtls": { "enabledBackend": "ca-1", "backends": [{ "name": "ca-1", "type": "builtin" }] },
    });
    server.write_api(Method::PUT, &format!("/meshes/{MESH}"), &mesh).await?;
    Ok(())
}

/// Dataplane of the first service, at an address of this machine. Returns its name.
async fn client(server: &Server) -> anyhow::Result<String> {
    let name = name(0);
    let [inbound, admin] = free_ports()?;
    let tags = json!({ "kuma.io/service": name, "kuma.io/protocol": "http" });
    let networking = json!({
        "address": inbound.ip(), "admin": { "port": admin.port() },
        "inbound": [{ "port": inbound.port(), "tags": tags }],
    });
    let dataplane = json!({ "type": "Dataplane", "mesh": MESH, "name": name, "networking": networking });
    server.write_api(Method::PUT, &format!("/meshes/{MESH}/dataplanes/{name}"), &dataplane).await?;
    Ok(name)
}

/// `kodiak dp run` with transparent proxying. Nothing is redirected: Envoy listens on ports that the system chose.
struct Sidecar {
    child: Child,
    work_dir: PathBuf,
}

impl Sidecar {
    fn start(own: &str, server: &Server, folder: &Path, token: &Path, program: &Path) -> anyhow::Result<Self> {
        let [inbound, outbound, dns, readiness] = free_ports()?.map(|address| address.port().to_string());
        let work_dir = folder.join("sidecar");
        let child = Command::new(std::env::current_exe()?)
            .args(["dp", "run", "--mesh", MESH, "--name", own, "--cp-address", &format!("https://{}", server.proxies)])
            .arg("--ca-cert-file")
            .arg(folder.join("kodiak.crt"))
            .arg("--dataplane-token-file")
            .arg(token)
            .arg("--envoy")
            .arg(program)
            .arg("--work-dir")
            .arg(&work_dir)
            .args(["--transparent-proxy", "--redirect-inbound-port", &inbound, "--redirect-outbound-port", &outbound])
            .args(["--dns-port", &dns, "--readiness-port", &readiness])
            .args(["--concurrency", "2", "--drain-time", "0s", "--envoy-log-level", "error"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .context("cannot start kodiak dp run")?;
        Ok(Self { child, work_dir })
    }

    /// Envoy is ready once it has all listeners and clusters of its first configuration.
    async fn wait_until_ready(&mut self) -> anyhow::Result<()> {
        let deadline = Instant::now() + PATIENCE;
        while self.ask("/ready").await.map_or(true, |(status, _)| status != 200) {
            anyhow::ensure!(self.child.try_wait()?.is_none(), "kodiak dp run exited");
            anyhow::ensure!(Instant::now() < deadline, "Envoy did not become ready within {PATIENCE:?}");
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        Ok(())
    }

    /// Process id of Envoy, the only child of `kodiak dp run`.
    fn envoy(&self) -> anyhow::Result<u32> {
        let tasks = fs::read_dir(format!("/proc/{}/task", self.child.id()))?;
        for task in tasks {
            let children = fs::read_to_string(task?.path().join("children"))?;
            if let Some(child) = children.split_whitespace().next() {
                return Ok(child.parse()?);
            }
        }
        anyhow::bail!("kodiak dp run has not started Envoy")
    }

    /// Value of a counter or gauge of Envoy.
    async fn statistic(&self, name: &str) -> anyhow::Result<u64> {
        let (_, text) = self.ask(&format!("/stats?filter=^{name}$")).await?;
        let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
        value.with_context(|| format!("Envoy has no statistic {name}"))?.parse().context("statistic is no number")
    }

    /// Status and body of a response of Envoy's admin interface.
    async fn ask(&self, path: &str) -> anyhow::Result<(u16, String)> {
        let work_dir = self.work_dir.to_str().context("the temporary folder has no UTF-8 name")?;
        let stream = UnixStream::connect(names::admin_socket(work_dir)).await?;
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        let connection = tokio::spawn(connection);
        let request = Request::get(path).header("host", "envoy").body(Empty::<Bytes>::new())?;
        let response = sender.send_request(request).await?;
        let status = response.status().as_u16();
        let body = response.into_body().collect().await?.to_bytes();
        connection.abort();
        Ok((status, String::from_utf8_lossy(&body).into_owned()))
    }

    async fn stop(mut self) -> anyhow::Result<()> {
        self.terminate()?;
        let deadline = Instant::now() + PATIENCE;
        while self.child.try_wait()?.is_none() {
            anyhow::ensure!(Instant::now() < deadline, "kodiak dp run did not stop");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        Ok(())
    }

    fn terminate(&self) -> anyhow::Result<()> {
        Command::new("kill").args(["-TERM", &self.child.id().to_string()]).status().context("cannot run kill")?;
        Ok(())
    }
}

impl Drop for Sidecar {
    /// SIGTERM and not SIGKILL, so that it stops Envoy.
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            let _ = self.terminate();
            let _ = self.child.wait();
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "far below 2^53")]
fn mebibytes(bytes: u64) -> f64 {
    bytes as f64 / 1024.0 / 1024.0
}

pub(super) fn table(all: &[MeasuredEnvoy]) -> Table {
    let columns =
        ["SERVICES", "TRIMMING", "READY MS", "RSS MIB", "HEAP MIB", "CLUSTERS", "LISTENERS", "RECEIVED BYTES"];
    let mut table = Table::new(columns);
    for MeasuredEnvoy { services, mode, ready, memory, heap, clusters, listeners, received } in all {
        table.row([
            services.to_string(),
            (*mode).to_owned(),
            format!("{:.0}", millis(*ready)),
            format!("{memory:.0}"),
            format!("{heap:.1}"),
            clusters.to_string(),
            listeners.to_string(),
            received.to_string(),
        ]);
    }
    table
}

impl MeasuredEnvoy {
    pub(super) fn json(&self) -> Value {
        let Self { services, mode, ready, memory, heap, clusters, listeners, received } = self;
        json!({
            "services": services,
            "trimming": mode,
            "ready_ms": millis(*ready),
            "rss_mib": memory,
            "heap_mib": heap,
            "clusters": clusters,
            "listeners": listeners,
            "received_bytes": received,
        })
    }
}
