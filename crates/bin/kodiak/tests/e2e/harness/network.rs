//! Network namespaces, for tests that redirect the traffic of a whole machine.
//!
//! A test starts itself once more in network and mount namespaces, which go with that process. Further machines are
//! network namespaces, each with a cable to the first one.

use std::{
    env, fs,
    io::{self, Write as _},
    net::Ipv4Addr,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use kodiak_testkit::{
    envoy::envoy,
    skip::{Need, skip},
};

use super::{Mesh, Process, User, eventually, expect};

/// Who runs proxies. Needs no entry anywhere.
pub(crate) const PROXY_USER: &str = "5678";
/// Who calls.
pub(crate) const OTHER_USER: &str = "65534";
const INSIDE: &str = "KODIAK_TEST_INSIDE_A_NETWORK";
/// Set to see what such a test prints also where it passes.
const SHOW: &str = "KODIAK_TEST_SHOW";

/// Whether this test is in namespaces of its own. If not, it has been run there when this returns, or cannot be.
pub(crate) async fn is_inside(test: &str) -> bool {
    if env::var_os(INSIDE).is_some() {
        return true;
    }
    if envoy().is_none() {
        return false;
    }
    if let Some(missing) = missing() {
        skip(Need::Root, &format!("{test}: {missing}"));
        return false;
    }
    // What is mounted in there goes with the namespaces; before, the folder could not be removed.
    let folder = tempfile::Builder::new().prefix("kodiak-").tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = Command::new("unshare");
    command.args(["--net", "--mount"]).arg(env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture"]).env(INSIDE, "1").env("TMPDIR", folder.path());
    let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    assert!(output.status.success() && printed(&output).contains("1 passed"), "{}", printed(&output));
    println!("{}", printed(&output));
    if env::var_os(SHOW).is_some() {
        writeln!(io::stderr(), "{}", printed(&output)).expect("standard error is open");
    }
    false
}

fn missing() -> Option<String> {
    let works = |program: &str, arguments: &[&str]| {
        Command::new(program).args(arguments).output().is_ok_and(|output| output.status.success())
    };
    if !works("unshare", &["--net", "--mount", "true"]) {
        return Some("this process may not make namespaces; run it as root".to_owned());
    }
    if !works("nft", &["--version"]) && !works("iptables", &["--version"]) {
        return Some("neither nft nor iptables is there".to_owned());
    }
    let tools = [("ip", "-V"), ("setpriv", "-V"), ("nsenter", "-V"), ("mount", "-V"), ("bash", "--version")];
    let tool = tools.iter().find(|(tool, version)| !works(tool, &[version]));
    tool.map(|(tool, _)| format!("{tool} is not there"))
}

/// Lets other users read what is in the folder, and has names looked up where nobody is.
pub(crate) fn prepare(mesh: &Mesh) {
    fs::set_permissions(mesh.folder(), fs::Permissions::from_mode(0o755)).unwrap();
    let resolv_conf = mesh.folder().join("resolv.conf");
    fs::write(&resolv_conf, "nameserver 10.9.9.53\noptions timeout:1 attempts:4\n").unwrap();
    run("mount", &["--bind", resolv_conf.to_str().unwrap(), "/etc/resolv.conf"]);
}

/// Who runs proxies, with the programs in this folder: they may not look into those where these are.
pub(crate) fn proxy_user(folder: &Path) -> User {
    User {
        number: PROXY_USER,
        kodiak: visible(env!("CARGO_BIN_EXE_kodiak").as_ref(), &folder.join("kodiak")),
        envoy: visible(envoy().expect("it was there"), &folder.join("envoy")),
        machine: None,
    }
}

/// The program under a path that everybody may read.
pub(crate) fn visible(program: &Path, path: &Path) -> PathBuf {
    fs::write(path, "").unwrap();
    run("mount", &["--bind", program.to_str().unwrap(), path.to_str().unwrap()]);
    path.to_owned()
}

/// A network by the number of a process in it.
#[derive(Clone, Copy)]
pub(crate) struct Network(u32);

impl Network {
    /// This program, run there.
    pub(crate) fn command(self, program: &str) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net=/proc/{}/ns/net", self.0)).arg("--").arg(program);
        command
    }

    fn run(self, program: &str, arguments: &[&str]) {
        check(self.command(program).args(arguments));
    }
}

/// Another machine, as far as the network is concerned: it has a cable to this one, where everything else is.
pub(crate) struct Machine {
    pub(crate) network: Network,
    pub(crate) address: Ipv4Addr,
    // The network is there as long as a process is in it.
    _holder: Process,
}

impl Machine {
    /// Its traffic is redirected to the proxy that runs there.
    pub(crate) async fn start(number: u8) -> Self {
        let machine = Self::without_redirection(number).await;
        let redirect = ["install", "transparent-proxy", "--kodiak-dp-user", PROXY_USER, "--redirect-dns"];
        machine.network.run(env!("CARGO_BIN_EXE_kodiak"), &redirect);
        machine
    }

    pub(crate) async fn without_redirection(number: u8) -> Self {
        let holder = Process::start(Command::new("unshare").args(["--net", "sleep", "infinity"]));
        let network = Network(holder.id());
        let namespace = |process: &str| fs::read_link(format!("/proc/{process}/ns/net")).unwrap();
        eventually("it has a network of its own", async || {
            let (own, its) = (namespace("self"), namespace(&holder.id().to_string()));
            expect(own != its, its)
        })
        .await;
        let [here, there] = [1, 2].map(|end| Ipv4Addr::new(10, 9, number, end));
        let (cable, holder_id) = (format!("cable-{number}"), holder.id().to_string());
        run("ip", &["link", "add", &cable, "type", "veth", "peer", "name", "out", "netns", &holder_id]);
        run("ip", &["address", "add", &format!("{here}/24"), "dev", &cable]);
        run("ip", &["link", "set", &cable, "up"]);
        network.run("ip", &["link", "set", "lo", "up"]);
        network.run("ip", &["address", "add", &format!("{there}/24"), "dev", "out"]);
        network.run("ip", &["link", "set", "out", "up"]);
        network.run("ip", &["route", "add", "default", "via", &here.to_string()]);
        Self { network, address: there, _holder: holder }
    }
}

/// Must go well.
pub(crate) fn run(program: &str, arguments: &[&str]) {
    check(Command::new(program).args(arguments));
}

fn check(command: &mut Command) {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", printed(&output));
}

pub(crate) fn printed(output: &Output) -> String {
    String::from_utf8_lossy(&[output.stderr.as_slice(), output.stdout.as_slice()].concat()).into_owned()
}
