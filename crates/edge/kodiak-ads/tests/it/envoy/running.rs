//! An Envoy that runs for one test, and ends with it.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use kodiak_envoy::envoy::config::bootstrap::v3::Bootstrap;
use kodiak_envoy::json::to_json;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::bed::PATIENCE;

pub(crate) struct Running {
    child: Child,
    folder: TempDir,
}

impl Running {
    pub(crate) fn start(envoy: &Path, bootstrap: &Bootstrap) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("bootstrap.json");
        fs::write(&file, to_json(bootstrap).unwrap().to_string()).unwrap();
        let log = File::create(folder.path().join("log")).unwrap();
        let mut command = Command::new(envoy);
        command.arg("-c").arg(file).args(["--disable-hot-restart", "--concurrency", "1"]);
        command.arg("--admin-address-path").arg(folder.path().join("admin"));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        Self { child: command.spawn().unwrap(), folder }
    }

    /// The address at which a listener listens.
    pub(crate) async fn listener(&self, name: &str) -> String {
        self.wait_for("it listens", async || {
            let answer = get(&self.admin()?, "/listeners").await?;
            let address = |line: &str| Some(line.strip_prefix(name)?.strip_prefix("::")?.to_owned());
            answer.lines().find_map(address)
        })
        .await
    }

    pub(crate) async fn wait_for_stat(&self, name: &str, value: u64) {
        self.wait_for(&format!("{name} is {value}"), async || {
            let answer = get(&self.admin()?, &format!("/stats?filter=^{name}$")).await?;
            answer.lines().any(|line| line == format!("{name}: {value}")).then_some(())
        })
        .await;
    }

    pub(crate) async fn wait_for<T>(&self, what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> T {
        let started = Instant::now();
        loop {
            if let Some(found) = look().await {
                return found;
            }
            assert!(started.elapsed() < PATIENCE, "not after {PATIENCE:?}: {what}:\n{}", self.log());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Envoy writes it once it has chosen a port.
    fn admin(&self) -> Option<String> {
        fs::read_to_string(self.folder.path().join("admin")).ok().filter(|address| !address.is_empty())
    }

    fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The whole response, if its status is 200.
pub(crate) async fn get(address: &str, path: &str) -> Option<String> {
    let mut stream = TcpStream::connect(address).await.ok()?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.ok()?;
    answer.starts_with("HTTP/1.1 200 ").then_some(answer)
}
