//! Redirection rules in a network namespace: destinations of traffic, and complete removal.
//!
//! The test starts itself again in a new network namespace, which ends with that process.

use std::env;
use std::io::ErrorKind;
use std::net::{Ipv4Addr, TcpListener, TcpStream, UdpSocket};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use kodiak_dp::transparent_proxy::{Backend, RedirectionSettings, install, uninstall};
use kodiak_testkit::skip::{Need, skip};

const INSIDE: &str = "KODIAK_TEST_INSIDE_A_NETWORK";
const PATIENCE: Duration = Duration::from_secs(30);
/// User that is neither root nor that of the proxy.
const OTHER_USER: &str = "65534";

#[test]
fn traffic_goes_through_the_proxy_by_nft() {
    in_a_network_namespace("redirection::traffic_goes_through_the_proxy_by_nft", Backend::Nft);
}

#[test]
fn traffic_goes_through_the_proxy_by_iptables() {
    in_a_network_namespace("redirection::traffic_goes_through_the_proxy_by_iptables", Backend::Iptables);
}

fn in_a_network_namespace(test: &str, backend: Backend) {
    if env::var_os(INSIDE).is_some() {
        return redirects(backend);
    }
    if let Some(missing) = missing(backend) {
        return skip(Need::Root, &format!("{test}: {missing}"));
    }
    let mut command = Command::new("unshare");
    command.arg("--net").arg(env::current_exe().unwrap()).args(["--exact", test, "--nocapture"]).env(INSIDE, "1");
    let output = command.output().unwrap();
    let printed = [output.stdout, output.stderr].concat();
    let printed = String::from_utf8_lossy(&printed);
    assert!(output.status.success() && printed.contains("1 passed"), "{printed}");
}

fn missing(backend: Backend) -> Option<String> {
    let works = |program: &str, arguments: &[&str]| {
        Command::new(program).args(arguments).output().is_ok_and(|output| output.status.success())
    };
    if !works("unshare", &["--net", "true"]) {
        return Some("this process may not make a network namespace; run it as root".to_owned());
    }
    let tools = [("ip", "-V"), ("nsenter", "-V"), ("setpriv", "-V"), ("bash", "--version")];
    let tool = tools.iter().find(|(tool, version)| !works(tool, &[version])).map(|(tool, _)| *tool);
    let tool = tool.or_else(|| (!backend.is_installed()).then(|| backend.name()));
    tool.map(|tool| format!("{tool} is not there"))
}

/// Another machine, over a veth pair.
struct Peer(Child);

impl Peer {
    fn connect() -> Self {
        let child = Command::new("unshare").args(["--net", "sleep", "600"]).stdin(Stdio::null()).spawn().unwrap();
        let peer = Self(child);
        // It is in its own namespace once it has executed the other program.
        let started = Instant::now();
        let name = format!("/proc/{}/comm", peer.0.id());
        while !std::fs::read_to_string(&name).unwrap().starts_with("sleep") {
            assert!(started.elapsed() < PATIENCE);
            thread::sleep(Duration::from_millis(5));
        }
        run("ip", &["link", "set", "lo", "up"]);
        let number = peer.0.id().to_string();
        run("ip", &["link", "add", "here", "type", "veth", "peer", "name", "there", "netns", &number]);
        run("ip", &["address", "add", "10.9.9.1/24", "dev", "here"]);
        run("ip", &["link", "set", "here", "up"]);
        run("ip", &["route", "add", "default", "via", "10.9.9.2"]);
        peer.run(&["ip", "address", "add", "10.9.9.2/24", "dev", "there"]);
        peer.run(&["ip", "address", "add", "240.0.0.1/32", "dev", "there"]);
        peer.run(&["ip", "link", "set", "there", "up"]);
        peer
    }

    fn run(&self, command: &[&str]) {
        let number = self.0.id().to_string();
        run("nsenter", &[&["--target", &number, "--net"], command].concat());
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn run(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {arguments:?}: {error}");
    String::from_utf8(output.stdout).unwrap()
}

fn as_other_user(script: &str) {
    let user = format!("--reuid={OTHER_USER}");
    run("setpriv", &[&user, "--clear-groups", "bash", "-c", script]);
}

/// The rules of the machine as its program prints them, without packet counters.
fn rules(backend: Backend) -> Vec<String> {
    let text = match backend {
        Backend::Nft => run("nft", &["list", "ruleset"]),
        Backend::Iptables => ["nat", "raw"].map(|table| run("iptables-save", &["-t", table])).concat(),
    };
    let rule = |line: &&str| !line.starts_with('#') && !line.starts_with(':') || line.contains("KODIAK");
    text.lines().filter(rule).map(str::to_owned).collect()
}

fn redirects(backend: Backend) {
    let peer = Peer::connect();
    // Rules of others, which must not change.
    match backend {
        Backend::Nft => run("nft", &["add", "table", "ip", "theirs"]),
        Backend::Iptables => run("iptables", &["-t", "nat", "-A", "OUTPUT", "-d", "10.1.1.1", "-j", "ACCEPT"]),
    };
    let before = rules(backend);
    let settings = RedirectionSettings {
        // This process is the proxy.
        proxy_user: 0,
        inbound_port: 15006,
        outbound_port: 15001,
        dns_port: Some(15053),
        exclude_inbound_ports: vec![22],
        exclude_outbound_ports: vec![3306],
    };
    install(&settings, backend).run().unwrap();
    let once = rules(backend);
    install(&settings, backend).run().unwrap();
    assert_eq!(rules(backend), once, "twice is as once");
    assert!(once.len() > before.len(), "{once:?}");

    let outbound = listener(15001);
    let inbound = listener(15006);
    as_other_user("exec 3<>/dev/tcp/240.0.0.1/80");
    assert!(taken(&outbound), "what others send goes to the proxy");
    as_other_user("! exec 3<>/dev/tcp/240.0.0.1/3306");
    assert!(!taken(&outbound), "except to ports that are excluded");
    let refused = TcpStream::connect((Ipv4Addr::new(240, 0, 0, 1), 80)).unwrap_err();
    assert_eq!(
        (refused.kind(), taken(&outbound)),
        (ErrorKind::ConnectionRefused, false),
        "the proxy itself gets through"
    );
    let local = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    as_other_user(&format!("exec 3<>/dev/tcp/127.0.0.1/{}", local.local_addr().unwrap().port()));
    assert!(taken(&local) && !taken(&outbound), "what stays on the machine is left alone");

    peer.run(&["bash", "-c", "exec 3<>/dev/tcp/10.9.9.1/8080"]);
    assert!(taken(&inbound), "what comes in goes to the proxy");
    peer.run(&["bash", "-c", "! exec 3<>/dev/tcp/10.9.9.1/22"]);
    assert!(!taken(&inbound), "except to ports that are excluded");
    drop(TcpStream::connect((Ipv4Addr::new(10, 9, 9, 1), 8080)).unwrap());
    assert!(taken(&inbound), "an application that calls itself through the proxy comes in there again");

    let dns = UdpSocket::bind((Ipv4Addr::LOCALHOST, 15053)).unwrap();
    dns.set_read_timeout(Some(PATIENCE)).unwrap();
    // All of them come from the same port: the conntrack entry of the proxy must not apply to others.
    let ports = "/proc/sys/net/ipv4/ip_local_port_range";
    let all_ports = std::fs::read_to_string(ports).unwrap();
    std::fs::write(ports, "40000 40000").unwrap();
    for _ in 0..2 {
        let proxy = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap();
        proxy.send_to(b"of the proxy", "240.0.0.1:53").unwrap();
        drop(proxy);
        as_other_user("echo -n of others >/dev/udp/240.0.0.1/53");
        let mut buffer = [0; 100];
        let length = dns.recv(&mut buffer).unwrap();
        assert_eq!(&buffer[..length], b"of others", "questions of others, and theirs alone, are for the proxy");
    }
    std::fs::write(ports, all_ports).unwrap();
    let dns = listener(15053);
    as_other_user("exec 3<>/dev/tcp/240.0.0.1/53");
    assert!(taken(&dns) && !taken(&outbound), "over TCP too");

    uninstall(backend).run().unwrap();
    assert_eq!(rules(backend), before, "nothing of ours stays, and all of theirs");
    uninstall(backend).run().unwrap();
    as_other_user("! exec 3<>/dev/tcp/240.0.0.1/80");
    assert!(!taken(&outbound));
}

fn listener(port: u16) -> TcpListener {
    TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).unwrap()
}

/// Whether a connection is pending there, once the client has reported it.
fn taken(listener: &TcpListener) -> bool {
    listener.set_nonblocking(true).unwrap();
    listener.accept().is_ok()
}
