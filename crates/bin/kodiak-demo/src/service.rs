//! One service of the demo: `kodiak demo echo` as a process of its own.

use std::net::SocketAddr;
use std::process::Stdio;
use std::time::Duration;

use anyhow::Context as _;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, ChildStdin, Command};

use super::graph::{Instance, called_by};
use super::machines::{APPLICATION_PORT, Machine};

/// Time to exit after standard input is closed.
const END_TIME: Duration = Duration::from_secs(10);

/// Killed when dropped; exits with this process, since its standard input is closed then.
pub(super) struct DemoService {
    pub(super) name: String,
    pub(super) address: SocketAddr,
    child: Child,
    stdin: Option<ChildStdin>,
}

impl DemoService {
    /// `next` are the ports of the outbounds of its proxy. Returns when the service listens.
    pub(super) async fn start(name: &str, next: &[(&'static str, u16)]) -> anyhow::Result<Self> {
        let command = Command::new(std::env::current_exe().context("cannot find the path of this program")?);
        let next = next.iter().map(|(to, port)| format!("{to}=http://127.0.0.1:{port}"));
        Self::start_as(command, name, &[], next).await
    }

    /// On a machine whose traffic is redirected: it calls others by their names in the mesh.
    pub(super) async fn start_on(machine: &Machine, instance: &Instance) -> anyhow::Result<Self> {
        let port = APPLICATION_PORT.to_string();
        let listen = ["--address", "0.0.0.0", "--port", &port];
        let next = called_by(instance.service).map(|to| format!("{to}=http://{to}.mesh:80"));
        let mut service = Self::start_as(machine.application(), &instance.name, &listen, next).await?;
        service.address = (machine.address, APPLICATION_PORT).into();
        Ok(service)
    }

    async fn start_as(
        mut command: Command,
        name: &str,
        listen: &[&str],
        next: impl Iterator<Item = String>,
    ) -> anyhow::Result<Self> {
        command.args(["demo", "echo", "--while-stdin-is-open", "--name", name]).args(listen);
        for next in next {
            command.args(["--next", &next]);
        }
        // Ctrl-C signals the whole process group; the service must stop after the traffic.
        command.process_group(0).kill_on_drop(true).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().with_context(|| format!("failed to start service {name}"))?;
        let stdin = child.stdin.take();
        let stdout = child.stdout.take().context("service has no standard output")?;
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line).await?;
        let address = line.trim_end().rsplit(' ').next().and_then(|address| address.parse().ok());
        let address = address.with_context(|| format!("service {name} did not print its address: {line:?}"))?;
        Ok(Self { name: name.to_owned(), address, child, stdin })
    }

    /// Waits until the service exits unexpectedly.
    pub(super) async fn ended(&mut self) -> anyhow::Error {
        match self.child.wait().await {
            Ok(status) => anyhow::anyhow!("the service {} ended by itself ({status})", self.name),
            Err(error) => anyhow::Error::from(error).context(format!("failed to wait for service {}", self.name)),
        }
    }

    pub(super) async fn stop(mut self) {
        drop(self.stdin.take());
        if tokio::time::timeout(END_TIME, self.child.wait()).await.is_err() {
            // It has exited either way.
            let _ = self.child.kill().await;
        }
    }
}
