//! A sidecar with a real Envoy trusts the certificate of a control plane on this machine, from its other addresses too.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use kodiak_testkit::envoy::envoy;

use super::Kodiak;

const PATIENCE: Duration = Duration::from_mins(1);
const DATAPLANE: &str = "type: Dataplane\nname: web-1\nmesh: default\nnetworking:\n  address: 127.0.0.1\n  inbound:\n  - {port: 8080, tags: {kuma.io/service: web}}\n";

/// A process that is killed with the test.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn kodiak(home: &Kodiak, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kodiak"));
    command.args(arguments).current_dir(home.home.path()).env("HOME", home.home.path()).env_remove("RUST_LOG");
    command.stdin(Stdio::null()).stdout(Stdio::null());
    command
}

/// With the port of proxies.
fn control_plane(home: &Kodiak, more: &[&str]) -> (Process, u16) {
    let ports = ["apiServer.http.port", "apiServer.https.port", "dpServer.port", "diagnostics.serverPort"];
    let mut command = kodiak(home, &["run", "--data-dir", "cp", "--set", "dpServer.authn.dpProxy.type=none"]);
    for port in ports.into_iter().chain(["diagnostics.healthPort", "monitoringAssignmentServer.port"]) {
        command.args(["--set", &format!("{port}=0")]);
    }
    let mut process = Process(command.args(more).stderr(Stdio::piped()).spawn().unwrap());
    let log = BufReader::new(process.0.stderr.take().unwrap());
    let (sender, found) = channel();
    thread::spawn(move || {
        let mut port = None;
        for line in log.lines().map_while(Result::ok) {
            let found = line.split("proxies=0.0.0.0:").nth(1).and_then(|rest| rest.split(' ').next()?.parse().ok());
            port = port.or(found);
            // The mesh of the Dataplane is one of them.
            if line.contains("created default resources") {
                let _ = sender.send(port.expect("it listens before it creates resources"));
            }
        }
    });
    (process, found.recv_timeout(PATIENCE).unwrap())
}

/// Waits until Envoy has its configuration from the control plane.
fn becomes_ready(home: &Kodiak, envoy: &str, address: &str, ca: &str) {
    home.file("web.yaml", DATAPLANE);
    let ready = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let port = ready.port().to_string();
    let arguments = ["dp", "run", "-d", "web.yaml", "--cp-address", address, "--ca-cert-file", ca];
    let mut command = kodiak(home, &arguments);
    command.args(["--envoy", envoy, "--readiness-port", &port, "--drain-time", "0s"]).stderr(Stdio::null());
    let _sidecar = Process(command.spawn().unwrap());
    let started = Instant::now();
    while !is_ready(ready) {
        assert!(started.elapsed() < PATIENCE, "{address} with {ca}");
        thread::sleep(Duration::from_millis(50));
    }
}

fn is_ready(address: std::net::SocketAddr) -> bool {
    let Ok(mut stream) = TcpStream::connect(address) else { return false };
    let mut answer = String::new();
    let asked = stream.write_all(b"GET /ready HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    asked.and_then(|()| stream.read_to_string(&mut answer)).is_ok() && answer.starts_with("HTTP/1.1 200 ")
}

#[test]
fn ca_in_the_working_directory_verifies_the_addresses_of_the_machine() {
    let Some(envoy) = envoy().and_then(|path| path.to_str()) else { return };
    let home = Kodiak::new();
    let (_control_plane, port) = control_plane(&home, &["--set", "general.certificateNames=127.0.0.9"]);
    becomes_ready(&home, envoy, &format!("https://127.0.0.9:{port}"), "cp/kodiak.crt");
    let own = UdpSocket::bind("0.0.0.0:0").unwrap();
    if own.connect("192.0.2.1:9").is_ok() {
        let address = own.local_addr().unwrap().ip();
        becomes_ready(&home, envoy, &format!("https://{address}:{port}"), "cp/kodiak.crt");
    }
}

#[test]
fn self_signed_certificate_that_is_marked_as_a_ca_is_trusted() {
    let Some(envoy) = envoy().and_then(|path| path.to_str()) else { return };
    let home = Kodiak::new();
    let mut params = rcgen::CertificateParams::new(["localhost".to_owned()]).unwrap();
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    params.extended_key_usages = vec![rcgen::ExtendedKeyUsagePurpose::ServerAuth];
    let key = rcgen::KeyPair::generate().unwrap();
    home.file("kuma-cp.crt", &params.self_signed(&key).unwrap().pem());
    home.file("kuma-cp.key", &key.serialize_pem());
    let files = ["general.tlsCertFile=kuma-cp.crt", "general.tlsKeyFile=kuma-cp.key"];
    let (_control_plane, port) = control_plane(&home, &["--set", files[0], "--set", files[1]]);
    becomes_ready(&home, envoy, &format!("https://localhost:{port}"), "kuma-cp.crt");
}
