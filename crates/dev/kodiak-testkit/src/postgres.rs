//! A real PostgreSQL for tests: started on a free port, with its data in a temporary folder, and never left behind.
//!
//! A small shell, the keeper, starts the server and waits on a pipe that the test process holds open. When the test
//! process ends, by return, panic or kill, the pipe closes, and the keeper stops the server and removes its folder.
//! PostgreSQL refuses to run as root; then it runs as `nobody`.

mod data;

use std::{
    env, fs,
    io::Write as _,
    net::TcpListener,
    os::unix::fs::{MetadataExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{
        OnceLock,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail, ensure};

use crate::skip::{Need, skip};

pub const HOST: &str = "127.0.0.1";
/// Needs no password.
pub const USER: &str = "kodiak";

const PATIENCE: Duration = Duration::from_secs(30);

/// Durable when the server is killed, but not when the machine is; tests run four times as fast with it.
const SETTINGS: &[&str] = &["fsync=off", "max_connections=300", "unix_socket_directories="];

/// `$1` is the folder, the rest the command. Any input other than `stop`, such as end of file, removes the folder.
const KEEPER: &str = r#"
trap "" INT TERM
folder=$1
shift
"$@" >>"$folder/log" 2>&1 &
read -r word
kill -QUIT $!
wait $!
[ "$word" = stop ] || rm -rf "$folder"
"#;

/// The server for all tests of this process; `None`, with a message, without PostgreSQL.
pub fn shared() -> Option<&'static Server> {
    static SHARED: OnceLock<Option<Server>> = OnceLock::new();
    SHARED.get_or_init(Server::start).as_ref()
}

#[derive(Debug)]
pub struct Server {
    programs: PathBuf,
    folder: PathBuf,
    port: u16,
    settings: Vec<String>,
    keeper: Option<Child>,
}

impl Server {
    /// A separate server, for tests that stop it; `None`, with a message, without PostgreSQL.
    pub fn start() -> Option<Self> {
        Self::start_with(&[], &[])
    }

    /// With its data in a new folder below this one, which may be a small file system.
    pub fn start_in(folder: &Path, settings: &[&str]) -> Option<Self> {
        Self::start_below(folder, &[], settings)
    }

    /// Also puts files into its folder, as (name, content), and adds settings, as `name=value`, where `$FOLDER` is that
    /// folder.
    pub fn start_with(files: &[(&str, &str)], settings: &[&str]) -> Option<Self> {
        Self::start_below(&env::temp_dir(), files, settings)
    }

    fn start_below(parent: &Path, files: &[(&str, &str)], settings: &[&str]) -> Option<Self> {
        let Some(programs) = find_programs() else {
            skip(Need::Postgres, "neither PATH nor /usr/lib/postgresql has PostgreSQL");
            return None;
        };
        Some(Self::make(programs, parent, files, settings).expect("PostgreSQL is installed and should start"))
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// Creates an empty database and returns its name.
    pub fn create_database(&self) -> Result<String> {
        static NEXT: AtomicUsize = AtomicUsize::new(1);
        let name = format!("test_{}", NEXT.fetch_add(1, Ordering::Relaxed));
        let port = self.port.to_string();
        run(Command::new(self.programs.join("createdb")).args(["-h", HOST, "-p", &port, "-U", USER, &name]))?;
        Ok(name)
    }

    /// Result of a statement, as unaligned text.
    pub fn query(&self, database: &str, statement: &str) -> Result<String> {
        let port = self.port.to_string();
        let mut psql = Command::new(self.programs.join("psql"));
        psql.args(["-h", HOST, "-p", &port, "-U", USER, "-d", database, "-v", "ON_ERROR_STOP=1", "-Atc", statement]);
        Ok(output(&mut psql)?.trim().to_owned())
    }

    /// Stops the server at once, like a crash, and keeps its data.
    pub fn stop(&mut self) -> Result<()> {
        let mut keeper = self.keeper.take().context("the server is not running")?;
        keeper.stdin.take().context("the keeper has a pipe")?.write_all(b"stop\n")?;
        ensure!(keeper.wait()?.success(), "the keeper failed");
        Ok(())
    }

    /// Starts the server with its existing data and port.
    pub fn run(&mut self) -> Result<()> {
        let port = self.port.to_string();
        let mut command = unprivileged("sh");
        command.args(["-c", KEEPER, "keeper"]).arg(&self.folder);
        command.arg(self.programs.join("postgres")).arg("-D").arg(self.data()).args(["-h", HOST, "-p", &port]);
        for setting in SETTINGS.iter().copied().chain(self.settings.iter().map(String::as_str)) {
            command.args(["-c", setting]);
        }
        self.keeper = Some(command.stdin(Stdio::piped()).spawn().context("cannot start the keeper")?);
        self.wait_until_ready()
    }

    fn make(programs: PathBuf, parent: &Path, files: &[(&str, &str)], settings: &[&str]) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("kodiak-postgres-").tempdir_in(parent)?.keep();
        for (name, content) in files {
            let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(folder.join(name))?;
            file.write_all(content.as_bytes())?;
        }
        if is_root() {
            run(Command::new("chown").args(["-R", "nobody:nogroup"]).arg(&folder))?;
        }
        let settings = settings.iter().map(|setting| setting.replace("$FOLDER", &folder.to_string_lossy())).collect();
        let port = TcpListener::bind((HOST, 0))?.local_addr()?.port();
        let mut server = Self { programs, folder, port, settings, keeper: None };
        let data = server.data();
        let mut initdb = unprivileged(server.programs.join("initdb"));
        run(initdb.arg("-D").arg(data).args(["-U", USER, "--auth=trust", "--no-sync", "--locale=C", "-E", "UTF8"]))?;
        server.run()?;
        Ok(server)
    }

    fn data(&self) -> PathBuf {
        self.folder.join("data")
    }

    /// PostgreSQL writes its state to the last line of its pid file.
    fn wait_until_ready(&self) -> Result<()> {
        let pid_file = self.data().join("postmaster.pid");
        let started = Instant::now();
        while !fs::read_to_string(&pid_file).is_ok_and(|text| text.trim_end().ends_with("ready")) {
            if started.elapsed() > PATIENCE {
                let log = fs::read_to_string(self.folder.join("log")).unwrap_or_default();
                bail!("PostgreSQL is not ready after {PATIENCE:?}:\n{log}");
            }
            thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        match &mut self.keeper {
            Some(keeper) => {
                drop(keeper.stdin.take());
                drop(keeper.wait());
            }
            None => drop(fs::remove_dir_all(&self.folder)),
        }
    }
}

/// The folder with the server's programs: from PATH, or the newest of Debian's.
fn find_programs() -> Option<PathBuf> {
    let on_path: Vec<_> = env::split_paths(&env::var_os("PATH").unwrap_or_default()).collect();
    let mut of_debian: Vec<_> =
        fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten().map(|dir| dir.path().join("bin")).collect();
    of_debian.sort();
    let complete = |folder: &Path| ["initdb", "postgres", "createdb"].iter().all(|name| folder.join(name).exists());
    // A link on PATH points to the folder with the other programs.
    let real = |folder: PathBuf| Some(folder.join("initdb").canonicalize().ok()?.parent()?.to_path_buf());
    on_path.into_iter().chain(of_debian.into_iter().rev()).filter_map(real).find(|folder| complete(folder))
}

fn unprivileged(program: impl AsRef<Path>) -> Command {
    if !is_root() {
        return Command::new(program.as_ref());
    }
    let mut command = Command::new("setpriv");
    command.args(["--reuid=nobody", "--regid=nogroup", "--clear-groups", "--"]).arg(program.as_ref());
    command.current_dir("/");
    command
}

fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0)
}

fn run(command: &mut Command) -> Result<()> {
    output(command).map(drop)
}

fn output(command: &mut Command) -> Result<String> {
    let output = command.output().with_context(|| format!("cannot run {command:?}"))?;
    ensure!(output.status.success(), "{command:?} failed: {}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
