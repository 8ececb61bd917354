//! Running one proxy: its bootstrap, its Envoy, its readiness, its DNS, its access logs and its metrics, from the start to
//! the end.
//!
//! Ports are bound first, because the bootstrap request has them. Nothing is restarted: when Envoy exits, the sidecar process
//! exits too, and its supervisor starts both again.

mod control_plane;
mod error;
mod options;
mod process;
mod readiness;
mod request;
mod work_dir;

use std::future::{Future, pending};
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::pin::pin;
use std::process::ExitStatus;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hyper::Method;
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::access_logs::AccessLogs;
use crate::dns;
use crate::envoy::Version;
use crate::metrics::MetricsServer;
use crate::socket;
use control_plane::{ControlPlane, MeshDirectory};
use process::Envoy;
use readiness::Readiness;
use work_dir::WorkDir;

pub use error::RunError;
pub use options::{Discovery, Dns, Options, Proxy, Token, TransparentProxy};

/// Time to report the drain to the control plane before Envoy closes connections.
const DRAIN_HEAD_START: Duration = Duration::from_secs(3);
/// Time for Envoy to exit on SIGTERM, after it has drained.
const END_TIME: Duration = Duration::from_secs(10);
/// Time to forward the last access logs after Envoy exited.
const LAST_LOGS_TIME: Duration = Duration::from_secs(2);

/// A running proxy. Dropping it ends it at once, and leaves no process and no file.
pub struct Runner {
    // In the order of their drop: clients of Envoy, Envoy, its files.
    tasks: JoinSet<()>,
    /// One of the tasks ended, which none should.
    failed: Arc<Notify>,
    envoy: Envoy,
    work_dir: WorkDir,
    control_plane: Arc<ControlPlane>,
    readiness: Arc<Readiness>,
    readiness_address: SocketAddr,
    dns_address: Option<SocketAddr>,
    options: Options,
}

impl Runner {
    /// Returns when Envoy is started, and waits for the control plane as long as it takes. Readiness shows whether Envoy
    /// accepts its configuration.
    pub async fn start(options: Options) -> Result<Self, RunError> {
        let control_plane = Arc::new(ControlPlane::new(&options)?);
        let program = options.envoy.clone();
        let version = tokio::task::spawn_blocking(move || Version::of_usable(&program)).await;
        let version = version.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()))?;
        let mut work_dir = WorkDir::new(options.work_dir.as_deref())?;

        let ready = SocketAddr::from((Ipv4Addr::LOCALHOST, options.readiness_port));
        let in_use = |source| RunError::Listen { what: "/ready", flag: "--readiness-port", address: ready, source };
        let listener = TcpListener::bind(ready).await.map_err(in_use)?;
        let readiness_address = listener.local_addr().map_err(in_use)?;
        let dns = match &options.dns {
            Some(dns) => Some(listen_for_dns(dns, &options, &work_dir, &control_plane).await?),
            None => None,
        };
        let dns_address = dns.as_ref().map(dns::Server::address);
        let socket = work_dir.metrics_socket(&options.proxy.name, &options.proxy.mesh);
        let metrics = MetricsServer::bind(&socket, work_dir.admin_socket(), work_dir.dynamic_config_socket())
            .map_err(|source| RunError::WorkDir { folder: work_dir.for_sockets().to_owned(), source })?;

        let pipe = work_dir.access_log_pipe();
        let access_logs = AccessLogs::open(&pipe).map_err(|source| RunError::WorkDir { folder: pipe, source })?;
        work_dir.link_access_logs(&options.proxy.mesh, &options.proxy.name)?;
        let readiness = Arc::new(Readiness {
            admin: work_dir.admin_socket(),
            terminating: AtomicBool::new(false),
            access_logs: access_logs.counts(),
        });
        let mut tasks = JoinSet::new();
        let failed = Arc::new(Notify::new());
        tasks.spawn(watched(Arc::clone(&failed), readiness::serve(listener, Arc::clone(&readiness))));
        tasks.spawn(watched(Arc::clone(&failed), report(&access_logs, &control_plane, &options)));
        tasks.spawn(watched(Arc::clone(&failed), access_logs.forward()));
        tasks.spawn(watched(Arc::clone(&failed), metrics.serve()));
        if let Some(dns) = dns {
            tasks.spawn(watched(Arc::clone(&failed), dns.serve()));
        }

        let found = request::Found {
            envoy: version,
            readiness_port: readiness_address.port(),
            dns_port: dns_address.map(|address| address.port()),
        };
        let request = request::request(&options, &found).to_string();
        let bootstrap = control_plane.bootstrap(request.as_bytes()).await?;
        let file = work_dir.write_bootstrap(&bootstrap)?;
        let envoy = Envoy::start(&options, &file, work_dir.for_sockets()).await?;
        tracing::info!(mesh = options.proxy.mesh, name = options.proxy.name, %version, ready = %readiness_address,
            "Envoy is started.");
        Ok(Self { tasks, failed, envoy, work_dir, control_plane, readiness, readiness_address, dns_address, options })
    }

    /// Address of `GET /ready`.
    pub fn readiness_address(&self) -> SocketAddr {
        self.readiness_address
    }

    /// Address of the DNS server, over UDP and TCP.
    pub fn dns_address(&self) -> Option<SocketAddr> {
        self.dns_address
    }

    /// Socket of Envoy's admin interface.
    pub fn admin_socket(&self) -> &Path {
        &self.readiness.admin
    }

    /// Waits until Envoy exits. If readiness, DNS, access logs or metrics of the sidecar process fail, Envoy is killed: the
    /// supervisor starts both again.
    pub async fn ended(&self) -> ExitStatus {
        tokio::select! {
            status = self.envoy.ended() => status,
            () = self.failed.notified() => {
                tracing::error!("readiness, DNS, access logs or metrics failed, ending Envoy");
                self.envoy.terminate(END_TIME).await
            }
        }
    }

    /// Drains, and stops.
    pub async fn stop(self) -> ExitStatus {
        self.stop_sooner_on(pending()).await
    }

    /// Like [`Self::stop`]; when `hurry` completes, the rest of the drain time is skipped.
    pub async fn stop_sooner_on(mut self, hurry: impl Future<Output = ()>) -> ExitStatus {
        self.readiness.terminating.store(true, Ordering::SeqCst);
        let drain_time = self.options.drain_time;
        tracing::info!("draining for {drain_time:?}; a second signal stops at once");
        let until = tokio::time::Instant::now() + drain_time;
        let drain = async {
            let mut told = pin!(self.control_plane.drain(&self.options.proxy.mesh, &self.options.proxy.name, until));
            // Envoy asks its clients to close their connections, also while the control plane is offline.
            let is_told = timeout(DRAIN_HEAD_START, &mut told).await.is_ok();
            if let Err(error) = socket::ask(self.admin_socket(), Method::POST, "/healthcheck/fail", &[]).await {
                tracing::warn!(%error, "failed to make Envoy fail its health checks");
            }
            if !is_told {
                told.await;
            }
            tokio::time::sleep_until(until).await;
        };
        tokio::select! {
            () = drain => (),
            () = hurry => tracing::info!("stopping without the rest of the drain time"),
            status = self.envoy.ended() => tracing::warn!(%status, "Envoy exited while draining"),
        }
        let status = self.envoy.terminate(END_TIME).await;
        self.readiness.access_logs.drained(LAST_LOGS_TIME).await;
        self.tasks.shutdown().await;
        tracing::info!(%status, work_dir = %self.work_dir.for_sockets().display(), "proxy stopped");
        status
    }
}

/// Reports callers without mTLS that access logs are about.
fn report(
    access_logs: &AccessLogs,
    control_plane: &Arc<ControlPlane>,
    options: &Options,
) -> impl Future<Output = ()> + use<> {
    let (callers, control_plane, proxy) =
        (access_logs.plaintext_callers(), Arc::clone(control_plane), options.proxy.clone());
    callers.report(async move |report| control_plane.report_plaintext_callers(&proxy.mesh, &proxy.name, report).await)
}

/// Runs a task that should not end; notifies when it does, also by a panic.
async fn watched(failed: Arc<Notify>, task: impl Future<Output = ()>) {
    struct Guard(Arc<Notify>);
    impl Drop for Guard {
        fn drop(&mut self) {
            self.0.notify_one();
        }
    }
    let _guard = Guard(failed);
    task.await;
}

async fn listen_for_dns(
    dns: &Dns,
    options: &Options,
    work_dir: &WorkDir,
    control_plane: &Arc<ControlPlane>,
) -> Result<dns::Server, RunError> {
    let directory = MeshDirectory {
        control_plane: Arc::clone(control_plane),
        mesh: options.proxy.mesh.clone(),
        name: options.proxy.name.clone(),
    };
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, dns.port));
    let settings = dns::DnsSettings {
        records: work_dir.dynamic_config_socket(),
        resolv_conf: dns.resolv_conf.clone(),
        ipv6: options.ipv6,
        directory: Arc::new(directory),
    };
    let in_use = |source: io::Error| RunError::Listen { what: "DNS", flag: "--dns-port", address, source };
    dns::Server::bind(address, settings).await.map_err(in_use)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn panicked_task_is_noticed() {
        let failed = Arc::new(Notify::new());
        let mut tasks = JoinSet::new();
        tasks.spawn(watched(Arc::clone(&failed), async { panic!("oh") }));
        failed.notified().await;
        tasks.join_next().await.unwrap().unwrap_err();
    }
}
