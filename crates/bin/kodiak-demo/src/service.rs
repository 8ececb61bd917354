//! One service of the demo: `kodiak demo echo` as a process of its own.

use std::net::SocketAddr;
use std::process::Stdio;
use std::time::Duration;

use anyhow::Context as _;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, ChildStdin, Command};

/// How long it has to end when its standard input does.
const END_TIME: Duration = Duration::from_secs(10);

/// Killed when it is dropped; ends by itself when we do, because its standard input ends with us.
pub(super) struct Service {
    pub(super) name: String,
    pub(super) address: SocketAddr,
    child: Child,
    stdin: Option<ChildStdin>,
}

impl Service {
    /// `next` are the ports on which its proxy takes its calls. Ends when it listens.
    pub(super) async fn start(name: &str, next: &[(&'static str, u16)]) -> anyhow::Result<Self> {
        let mut command = Command::new(std::env::current_exe().context("cannot tell which program this is")?);
        command.args(["demo", "echo", "--while-stdin-is-open", "--name", name]);
        for (to, port) in next {
            command.args(["--next", &format!("{to}=http://127.0.0.1:{port}")]);
        }
        // Ctrl-C goes to all processes of the terminal's group; this one is to end after the traffic has.
        command.process_group(0).kill_on_drop(true).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().with_context(|| format!("cannot start the service {name}"))?;
        let stdin = child.stdin.take();
        let stdout = child.stdout.take().context("the service has no standard output")?;
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line).await?;
        let address = line.trim_end().rsplit(' ').next().and_then(|address| address.parse().ok());
        let address = address.with_context(|| format!("the service {name} did not say where it listens: {line:?}"))?;
        Ok(Self { name: name.to_owned(), address, child, stdin })
    }

    /// Waits until it ended by itself, which it should not.
    pub(super) async fn ended(&mut self) -> anyhow::Error {
        match self.child.wait().await {
            Ok(status) => anyhow::anyhow!("the service {} ended by itself ({status})", self.name),
            Err(error) => anyhow::Error::from(error).context(format!("cannot wait for the service {}", self.name)),
        }
    }

    pub(super) async fn stop(mut self) {
        drop(self.stdin.take());
        if tokio::time::timeout(END_TIME, self.child.wait()).await.is_err() {
            // It is gone either way.
            let _ = self.child.kill().await;
        }
    }
}
