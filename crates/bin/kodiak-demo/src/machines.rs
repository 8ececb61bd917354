//! Network namespaces: each instance has a machine of its own, whose traffic is redirected to its proxy.
//!
//! All are connected to a bridge in a further namespace, and this machine is, too. A namespace exists as long as the process
//! that holds it, which exits when its standard input is closed: also when the demo is killed. Proxies run as root,
//! applications as nobody.

use std::ffi::OsStr;
use std::fs::{self, Permissions};
use std::net::Ipv4Addr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::Context as _;
use kodiak_dp::transparent_proxy::Backend;
use kodiak_terminal::usage;
use tempfile::TempDir;
use tokio::process::{Child, Command};

/// User whose traffic is not redirected.
const PROXY_USER: &str = "0";
/// User of applications: nobody. Needs no entry anywhere.
const APPLICATION_USER: &str = "65534";
/// Port of applications. It is not redirected, so that the demo can call them.
pub(super) const APPLICATION_PORT: u16 = 8000;
/// Programs, and the packages that have them.
const PROGRAMS: &[(&str, &str)] =
    &[("ip", "iproute2"), ("unshare", "util-linux"), ("nsenter", "util-linux"), ("setpriv", "util-linux")];
/// Name of the bridge.
const BRIDGE: &str = "kodiak";
const PATIENCE: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(5);

/// The network of the demo. Dropping it removes it.
pub(super) struct Network {
    bridge: Namespace,
    /// Part of the addresses: 198.18.0.0/15 is reserved for tests of networks.
    subnet: u8,
    /// Programs that applications may read.
    programs: TempDir,
}

pub(super) struct Machine {
    namespace: Namespace,
    pub(super) address: Ipv4Addr,
    program: PathBuf,
}

/// Network namespace, and the process that holds it.
struct Namespace {
    _holder: Child,
    file: String,
    process: u32,
}

impl Network {
    /// Fails with advice if this process may not do it, or a program is missing.
    pub(super) async fn create() -> anyhow::Result<Self> {
        require().await?;
        let programs =
            tempfile::Builder::new().prefix("kodiak-demo-app-").tempdir().context("cannot create a folder")?;
        fs::set_permissions(programs.path(), Permissions::from_mode(0o755))?;
        let own = std::env::current_exe().context("cannot find the path of this program")?;
        let program = programs.path().join("kodiak");
        fs::copy(own, &program).context("cannot copy this program for applications")?;
        fs::set_permissions(&program, Permissions::from_mode(0o755))?;

        let bridge = Namespace::create().await?;
        bridge.run("ip", &["link", "add", BRIDGE, "type", "bridge"]).await?;
        bridge.run("ip", &["link", "set", BRIDGE, "up"]).await?;
        // Two demos may run at the same time.
        let subnet = u8::try_from(bridge.process % 250).unwrap_or_default();
        let network = Self { bridge, subnet, programs };
        let device = format!("kodiak-demo-{subnet}");
        network.connect(&device, None).await?;
        run("ip", &["address", "add", &format!("{}/24", network.host()), "dev", &device]).await?;
        run("ip", &["link", "set", &device, "up"]).await?;
        Ok(network)
    }

    /// Address of this machine.
    pub(super) fn host(&self) -> Ipv4Addr {
        self.address(1)
    }

    fn address(&self, number: u8) -> Ipv4Addr {
        Ipv4Addr::new(198, 18, self.subnet, number)
    }

    pub(super) async fn machine(&self, number: u8) -> anyhow::Result<Machine> {
        let (namespace, address) = (Namespace::create().await?, self.address(10 + number));
        self.connect("eth0", Some((number, &namespace))).await?;
        for arguments in [
            &["link", "set", "lo", "up"][..],
            &["address", "add", &format!("{address}/24"), "dev", "eth0"],
            &["link", "set", "eth0", "up"],
            &["route", "add", "default", "via", &self.host().to_string()],
        ] {
            namespace.run("ip", arguments).await?;
        }
        let program = self.programs.path().join("kodiak");
        let port = APPLICATION_PORT.to_string();
        let redirect = ["install", "transparent-proxy", "--kodiak-dp-user", PROXY_USER, "--redirect-dns"];
        namespace.run(&program, &[&redirect[..], &["--exclude-inbound-ports", &port]].concat()).await?;
        Ok(Machine { namespace, address, program })
    }

    /// Connects a device of a machine, or of this one, to the bridge.
    async fn connect(&self, device: &str, machine: Option<(u8, &Namespace)>) -> anyhow::Result<()> {
        let port = machine.map_or_else(|| "host".to_owned(), |(number, _)| format!("port-{number}"));
        let process = machine.map_or_else(std::process::id, |(_, namespace)| namespace.process).to_string();
        self.bridge
            .run("ip", &["link", "add", &port, "type", "veth", "peer", "name", device, "netns", &process])
            .await?;
        self.bridge.run("ip", &["link", "set", &port, "master", BRIDGE, "up"]).await
    }
}

impl Machine {
    /// This program there, as root.
    pub(super) fn sidecar(&self) -> Command {
        let mut command = self.namespace.command("setpriv");
        command.args(["--pdeathsig", "KILL", "--"]).arg(&self.program);
        command
    }

    /// This program there, as an application.
    pub(super) fn application(&self) -> Command {
        let mut command = self.namespace.command("setpriv");
        command.arg(format!("--reuid={APPLICATION_USER}")).arg(format!("--regid={APPLICATION_USER}"));
        command.args(["--clear-groups", "--"]).arg(&self.program).current_dir("/");
        command
    }
}

impl Namespace {
    async fn create() -> anyhow::Result<Self> {
        let mut command = Command::new("unshare");
        command.args(["--net", "--", "cat"]).stdin(Stdio::piped()).stdout(Stdio::null()).kill_on_drop(true);
        // Ctrl-C signals the whole process group; namespaces go last.
        let holder = command.process_group(0).spawn().context("failed to start unshare")?;
        let process = holder.id().context("unshare has exited")?;
        let file = format!("/proc/{process}/ns/net");
        let own = fs::read_link("/proc/self/ns/net")?;
        let moved = async {
            while fs::read_link(&file).is_ok_and(|namespace| namespace == own) {
                tokio::time::sleep(PAUSE).await;
            }
        };
        tokio::time::timeout(PATIENCE, moved).await.context("unshare made no network namespace")?;
        Ok(Self { _holder: holder, file, process })
    }

    fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net={}", self.file)).arg("--").arg(program);
        command
    }

    async fn run(&self, program: impl AsRef<Path>, arguments: &[&str]) -> anyhow::Result<()> {
        checked(self.command(program.as_ref()).args(arguments)).await
    }
}

async fn run(program: &str, arguments: &[&str]) -> anyhow::Result<()> {
    checked(Command::new(program).args(arguments)).await
}

async fn checked(command: &mut Command) -> anyhow::Result<()> {
    let output = command.stdin(Stdio::null()).output().await.with_context(|| format!("failed to run {command:?}"))?;
    let error = String::from_utf8_lossy(&output.stderr);
    anyhow::ensure!(output.status.success(), "{:?} failed ({}): {}", command.as_std(), output.status, error.trim());
    Ok(())
}

async fn require() -> anyhow::Result<()> {
    for (program, package) in PROGRAMS {
        let mut command = Command::new(program);
        let output = command.arg("-V").stdin(Stdio::null()).output().await;
        if !output.is_ok_and(|output| output.status.success()) {
            return Err(usage(format!("the scenario needs the program {program}: install the package {package}")));
        }
    }
    if Backend::installed().next().is_none() {
        return Err(usage("the scenario needs nft or iptables: install the package nftables"));
    }
    if run("unshare", &["--net", "true"]).await.is_err() {
        return Err(usage(
            "the scenario redirects traffic in network namespaces, which only root may create: run sudo kodiak demo --scenario trimming",
        ));
    }
    Ok(())
}
