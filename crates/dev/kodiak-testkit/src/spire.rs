//! A real SPIRE server and agent for tests: one trust domain, with sockets and data in a temporary folder, and never
//! left behind.
//!
//! The agent attests workloads with the `unix` attestor, by the process that connects to its socket: for SDS that is
//! Envoy itself. Every process of this user gets all registered identities.
//!
//! As for [`crate::postgres`], a small shell, the keeper, starts both programs and waits on a pipe that the test process
//! holds open. When the test process ends, by return, panic or kill, the pipe closes, and the keeper kills both and
//! removes their folder.

use std::{
    env, fs,
    io::Write as _,
    net::TcpListener,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail, ensure};

use crate::skip::{Need, skip};

/// Variable with the folder of both programs.
const VARIABLE: &str = "KODIAK_SPIRE";
/// `cargo xtask ci --only setup` builds the version that this file pins.
const PIN: &str = include_str!("../spire/go.mod");
const CONFIGURATIONS: [(&str, &str); 2] =
    [("server.conf", include_str!("../spire/server.conf")), ("agent.conf", include_str!("../spire/agent.conf"))];

const PATIENCE: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(50);

/// `$1` is the folder of the programs. The first line of input starts the agent; end of file ends everything.
const KEEPER: &str = r#"
trap "" INT TERM
"$1/spire-server" run -expandEnv -config "$FOLDER/server.conf" >"$FOLDER/server.log" 2>&1 &
server=$!
if read -r _; then
    "$1/spire-agent" run -expandEnv -config "$FOLDER/agent.conf" >"$FOLDER/agent.log" 2>&1 &
    agent=$!
    read -r _
fi
kill -KILL $server $agent
wait
rm -rf "$FOLDER"
"#;

#[derive(Debug)]
pub struct Spire {
    programs: PathBuf,
    folder: PathBuf,
    agent_socket: PathBuf,
    trust_domain: String,
    keeper: Child,
}

impl Spire {
    /// `None`, with a message, where SPIRE is not built.
    pub fn start(trust_domain: &str) -> Option<Self> {
        match find_programs() {
            Ok(programs) => Some(Self::make(programs, trust_domain).expect("SPIRE is built and should start")),
            Err(error) => {
                skip(Need::Spire, &format!("there is no SPIRE: {error:#}"));
                None
            }
        }
    }

    /// Socket on which the agent serves the Workload API and Envoy's SDS.
    pub fn agent_socket(&self) -> &Path {
        &self.agent_socket
    }

    /// Root certificates of the trust domain, as PEM.
    pub fn trust_bundle(&self) -> Result<String> {
        self.server(&["bundle", "show"])
    }

    /// Registers an identity for all processes of this user, and waits until the agent serves it.
    ///
    /// SPIRE backdates a certificate by ten seconds and renews it after half of its lifetime. With a TTL of at most ten
    /// seconds it renews all the time.
    pub fn register(&self, spiffe_id: &str, ttl_seconds: u32) -> Result<()> {
        let (node, ttl) = (self.node(), ttl_seconds.to_string());
        let selector = format!("unix:uid:{}", fs::metadata("/proc/self")?.uid());
        let identity = ["-parentID", &node, "-spiffeID", spiffe_id, "-selector", &selector, "-x509SVIDTTL", &ttl];
        self.server(&[&["entry", "create"], &identity[..]].concat())?;
        self.wait_for("agent.log", || {
            let identities = self.identities()?;
            ensure!(identities.iter().any(|id| id == spiffe_id), "the agent serves {identities:?}");
            Ok(())
        })
    }

    /// SPIFFE IDs whose certificates the agent serves to processes of this user. An error while there are none.
    pub fn identities(&self) -> Result<Vec<String>> {
        let fetched = self.agent(&["api", "fetch", "x509"])?;
        let ids = fetched.lines().filter_map(|line| line.strip_prefix("SPIFFE ID:"));
        Ok(ids.map(|id| id.trim().to_owned()).collect())
    }

    fn make(programs: PathBuf, trust_domain: &str) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("kodiak-spire-").tempdir()?;
        for (name, text) in CONFIGURATIONS {
            fs::write(folder.path().join(name), text)?;
        }
        // SPIRE refuses port 0.
        let port = TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port();
        let mut keeper = Command::new("sh");
        keeper.args(["-c", KEEPER, "keeper"]).arg(&programs).stdin(Stdio::piped());
        keeper.env("FOLDER", folder.path()).env("PORT", port.to_string()).env("TRUST_DOMAIN", trust_domain);
        let keeper = keeper.spawn().context("cannot start the keeper")?;
        let folder = folder.keep();
        let agent_socket = folder.join("agent.sock");
        let mut spire = Self { programs, folder, agent_socket, trust_domain: trust_domain.to_owned(), keeper };
        spire.join_agent()?;
        Ok(spire)
    }

    fn join_agent(&mut self) -> Result<()> {
        let bundle = self.wait_for("server.log", || self.trust_bundle())?;
        fs::write(self.folder.join("bundle.pem"), bundle)?;
        let printed = self.server(&["token", "generate", "-spiffeID", &self.node()])?;
        let token =
            printed.lines().find_map(|line| line.strip_prefix("Token: ")).context("the server made no token")?;
        fs::write(self.folder.join("token"), token)?;
        self.keeper.stdin.as_mut().context("the keeper has a pipe")?.write_all(b"agent\n")?;
        self.wait_for("agent.log", || self.agent(&["healthcheck"])).map(drop)
    }

    /// SPIFFE ID of the agent; the parent of all registered identities.
    fn node(&self) -> String {
        format!("spiffe://{}/node", self.trust_domain)
    }

    fn server(&self, arguments: &[&str]) -> Result<String> {
        self.command("spire-server", arguments, &self.folder.join("server.sock"))
    }

    fn agent(&self, arguments: &[&str]) -> Result<String> {
        self.command("spire-agent", arguments, &self.agent_socket)
    }

    fn command(&self, program: &str, arguments: &[&str], socket: &Path) -> Result<String> {
        let mut command = Command::new(self.programs.join(program));
        let output = command.args(arguments).arg("-socketPath").arg(socket).output()?;
        ensure!(output.status.success(), "{command:?} failed: {}", String::from_utf8_lossy(&output.stderr));
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Repeats an attempt until it succeeds. The error has the last failure and the log of the program.
    fn wait_for<T>(&self, log: &str, attempt: impl Fn() -> Result<T>) -> Result<T> {
        let started = Instant::now();
        loop {
            match attempt() {
                Ok(result) => return Ok(result),
                Err(error) if started.elapsed() > PATIENCE => {
                    let log = fs::read_to_string(self.folder.join(log)).unwrap_or_default();
                    bail!("SPIRE is not ready after {PATIENCE:?}: {error:#}\n{log}");
                }
                Err(_) => thread::sleep(PAUSE),
            }
        }
    }
}

impl Drop for Spire {
    fn drop(&mut self) {
        drop(self.keeper.stdin.take());
        drop(self.keeper.wait());
    }
}

/// Folder with both programs: the one that the variable names, or that of the pinned version in the cache.
fn find_programs() -> Result<PathBuf> {
    let absolute = |key: &str| env::var_os(key).map(PathBuf::from).filter(|path| path.is_absolute());
    let cache = || absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")));
    let version = PIN.lines().find_map(|line| line.strip_prefix("require github.com/spiffe/spire v"));
    let version = version.context("go.mod does not require SPIRE")?;
    let folder = absolute(VARIABLE).or_else(|| Some(cache()?.join(format!("kodiak/tools/spire-{version}/bin"))));
    let folder = folder.context("neither XDG_CACHE_HOME nor HOME says where the cache is")?;
    let complete = ["spire-server", "spire-agent"].iter().all(|program| folder.join(program).is_file());
    ensure!(complete, "it is not in {}; `cargo xtask ci --only setup` builds it", folder.display());
    Ok(folder)
}
