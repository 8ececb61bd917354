//! An Envoy that runs for one test, and ends with it.

use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use kodiak_envoy::envoy::config::bootstrap::v3::Bootstrap;
use tempfile::TempDir;

/// Far longer than needed, for machines under load.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) struct Running {
    child: Child,
    folder: TempDir,
}

impl Running {
    pub(crate) fn start(envoy: &Path, bootstrap: &Bootstrap) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let log = File::create(folder.path().join("log")).unwrap();
        let mut command = Command::new(envoy);
        command.arg("-c").arg(crate::write(bootstrap, folder.path()));
        command.args(["--use-dynamic-base-id", "--concurrency", "1", "--file-flush-interval-msec", "100"]);
        command.arg("--base-id-path").arg(folder.path().join("base-id"));
        command.arg("--admin-address-path").arg(folder.path().join("admin"));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        Self { child: command.spawn().unwrap(), folder }
    }

    pub(crate) fn wait_until_live(&self) {
        self.wait_for("it is live", || {
            let answer = get(&self.admin()?, "/ready").ok()?;
            // Chunked, so not at the end.
            (answer.starts_with("HTTP/1.1 200 ") && answer.contains("\r\nLIVE\n")).then_some(())
        });
    }

    /// The address at which a listener listens.
    pub(crate) fn listener(&self, name: &str) -> String {
        self.wait_for("it listens", || {
            let answer = get(&self.admin()?, "/listeners").ok()?;
            let address = |line: &str| Some(line.strip_prefix(name)?.strip_prefix("::")?.to_owned());
            answer.lines().find_map(address)
        })
    }

    /// Statistics whose names contain this text, one per line.
    pub(crate) fn statistics(&self, name: &str) -> String {
        let admin = self.admin().expect("Envoy wrote its address before it was live");
        get(&admin, &format!("/stats?filter={name}")).unwrap()
    }

    /// The value of a counter.
    pub(crate) fn counter(&self, name: &str) -> u64 {
        let admin = self.admin().expect("it is live");
        let answer = get(&admin, &format!("/stats?filter=^{name}$")).unwrap();
        let value = answer.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
        value.map_or(0, |value| value.parse().unwrap())
    }

    /// Sends SIGTERM, and returns files and processes that are left.
    pub(crate) fn end(mut self) -> Vec<PathBuf> {
        let memory = self.shared_memory().expect("Envoy wrote its base id before it was live");
        assert!(memory.exists(), "Envoy has no {}", memory.display());
        let process = PathBuf::from(format!("/proc/{}", self.child.id()));
        let status = self.terminate();
        assert!(status.is_some_and(|status| status.success()), "{status:?}:\n{}", self.log());
        let folder = self.folder.path().to_owned();
        drop(self);
        [process, folder, memory].into_iter().filter(|path| path.exists()).collect()
    }

    /// `None` when it does not exit in time.
    fn terminate(&mut self) -> Option<ExitStatus> {
        let status = Command::new("kill").args(["-TERM", &self.child.id().to_string()]).status();
        assert!(status.unwrap().success());
        let started = Instant::now();
        while started.elapsed() < PATIENCE {
            if let Some(status) = self.child.try_wait().unwrap() {
                return Some(status);
            }
            thread::sleep(Duration::from_millis(10));
        }
        None
    }

    /// Shared memory of Envoy for a hot restart. Its name is ten times the base id.
    fn shared_memory(&self) -> Option<PathBuf> {
        let base_id: u64 = fs::read_to_string(self.folder.path().join("base-id")).ok()?.trim().parse().ok()?;
        Some(PathBuf::from(format!("/dev/shm/envoy_shared_memory_{}", base_id * 10)))
    }

    /// Envoy writes it once it has chosen a port.
    fn admin(&self) -> Option<String> {
        fs::read_to_string(self.folder.path().join("admin")).ok().filter(|address| !address.is_empty())
    }

    fn wait_for<T>(&self, what: &str, mut look: impl FnMut() -> Option<T>) -> T {
        let started = Instant::now();
        loop {
            if let Some(found) = look() {
                return found;
            }
            assert!(started.elapsed() < PATIENCE, "not after {PATIENCE:?}: {what}:\n{}", self.log());
            thread::sleep(Duration::from_millis(10));
        }
    }

    fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }
}

impl Drop for Running {
    /// Kills it if it still runs. Envoy never removes its shared memory.
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if let Some(memory) = self.shared_memory() {
            let _ = fs::remove_file(memory);
        }
    }
}

/// The whole response, as text.
pub(crate) fn get(address: &str, path: &str) -> io::Result<String> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}
