//! `kodiak dp run` and `kodiak install transparent-proxy` as users run them. Envoy is a script here; the real one runs in
//! the tests of `kodiak-dp`.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use kodiak_crypto::{ServerCertParams, self_signed_server, server_config};
use kodiak_testkit::skip::{Need, skip};
use serde_json::{Value, json};

use super::Kodiak;

const PATIENCE: Duration = Duration::from_mins(1);
const DATAPLANE: &str = "\
type: Dataplane
name: {{ name }}
networking:
  address: {{address}}
  inbound:
  - port: 8080
    tags: {kuma.io/service: web}
";

/// Serves proxies until the test process exits.
struct ControlPlane {
    address: String,
    asked: Receiver<(String, Value)>,
}

impl ControlPlane {
    /// Writes its certificate to `ca.pem`.
    fn start(kodiak: &Kodiak, status: &'static str, body: &str) -> Self {
        let body = body.to_owned();
        let now = jiff::Timestamp::now();
        let valid_for = Duration::from_hours(1);
        let pair = self_signed_server(&ServerCertParams { hostnames: &[], ips: &[], valid_for, now }).unwrap();
        Self::serve(kodiak, &pair.cert_pem, pair.key_pem.expose(), move |_| (status, body.clone()))
    }

    /// Has a self-signed certificate that is marked as a CA, and knows `/bootstrap` alone.
    fn start_like_kuma(kodiak: &Kodiak, bootstrap: &str) -> Self {
        let mut params = rcgen::CertificateParams::new(["localhost".to_owned()]).unwrap();
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let key = rcgen::KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap().pem();
        let bootstrap = bootstrap.to_owned();
        Self::serve(kodiak, &certificate, &key.serialize_pem(), move |path| match path {
            "/bootstrap" => ("200 OK", bootstrap.clone()),
            _ => ("404 Not Found", "404: Page Not Found".to_owned()),
        })
    }

    fn serve(
        kodiak: &Kodiak,
        certificate: &str,
        key: &str,
        answer: impl Fn(&str) -> (&'static str, String) + Send + 'static,
    ) -> Self {
        let tls = server_config(certificate.as_bytes(), key.as_bytes(), None).unwrap();
        kodiak.file("ca.pem", certificate);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("https://localhost:{}", listener.local_addr().unwrap().port());
        let (sender, asked) = channel();
        thread::spawn(move || {
            for stream in listener.incoming() {
                let session = rustls::ServerConnection::new(Arc::clone(&tls)).unwrap();
                let mut stream = BufReader::new(rustls::StreamOwned::new(session, stream.unwrap()));
                let (mut line, mut head) = (String::new(), String::new());
                while stream.read_line(&mut line).is_ok_and(|length| length > 2) {
                    head.push_str(&line.to_ascii_lowercase());
                    line.clear();
                }
                let length = head.split("content-length: ").nth(1).and_then(|rest| rest.lines().next());
                let mut body = vec![0; length.unwrap().parse().unwrap()];
                stream.read_exact(&mut body).unwrap();
                let path = head.split(' ').nth(1).unwrap().to_owned();
                let (status, text) = answer(&path);
                // The test may have seen enough.
                let _ = sender.send((path, serde_json::from_slice(&body).unwrap()));
                let length = text.len();
                let answer =
                    format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{text}");
                stream.get_mut().write_all(answer.as_bytes()).unwrap();
                stream.get_mut().conn.send_close_notify();
                stream.get_mut().flush().unwrap();
            }
        });
        Self { address, asked }
    }

    fn with_bootstrap(kodiak: &Kodiak) -> Self {
        Self::start(kodiak, "200 OK", &json!({"bootstrap": BASE64_STANDARD.encode("node: {}")}).to_string())
    }

    fn next(&self) -> (String, Value) {
        self.asked.recv_timeout(PATIENCE).unwrap()
    }
}

/// Script with the version output of Envoy that then runs `what`. Written by another process, so that it is not open in
/// this one when it is started.
fn envoy(kodiak: &Kodiak, what: &str) -> PathBuf {
    let program = kodiak.home.path().join("envoy");
    let version = "echo \"envoy  version: 0/1.40.0/Clean/RELEASE/BoringSSL\"";
    let home = kodiak.home.path().display();
    let text = format!("#!/bin/sh\nif [ \"$1\" = --version ]; then {version}; exit; fi\nHOME={home}\n{what}\n");
    let write = r#"printf '%s' "$2" >"$1" && chmod 755 "$1""#;
    let status = Command::new("sh").args(["-c", write, "write"]).arg(&program).arg(text).status().unwrap();
    assert!(status.success());
    program
}

/// Sidecar in the background, with its output. Killed with the test.
struct Running {
    child: Child,
    printed: Arc<Mutex<String>>,
}

impl Running {
    fn start(kodiak: &Kodiak, control_plane: &ControlPlane, extra: &[&str]) -> Self {
        let usual = [
            &["-d", "web.yaml", "-v", "name=web-1", "-v", "address=127.0.0.1"][..],
            &["--ca-cert-file", "ca.pem", "--envoy", "./envoy", "--readiness-port", "0"],
        ];
        let arguments = [&usual.concat(), extra].concat();
        Self::start_with(kodiak, &[("KUMA_CONTROL_PLANE_URL", &control_plane.address)], &arguments)
    }

    fn start_with(kodiak: &Kodiak, environment: &[(&str, &str)], arguments: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_kodiak"))
            .args(["dp", "run", "--no-color"])
            .args(arguments)
            .current_dir(kodiak.home.path())
            .env("HOME", kodiak.home.path())
            .envs(environment.iter().copied())
            .env_remove("RUST_LOG")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let printed = Arc::new(Mutex::new(String::new()));
        let (shared, stderr) = (Arc::clone(&printed), child.stderr.take().unwrap());
        thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                *shared.lock().unwrap() += &(line + "\n");
            }
        });
        Self { child, printed }
    }

    fn wait_until(&self, what: &str, mut look: impl FnMut() -> bool) {
        let started = Instant::now();
        while !look() {
            assert!(started.elapsed() < PATIENCE, "not after {PATIENCE:?}: {what}:\n{}", self.printed());
            thread::sleep(Duration::from_millis(10));
        }
    }

    fn printed(&self) -> String {
        self.printed.lock().unwrap().clone()
    }

    fn signal(&self, signal: &str) {
        assert!(Command::new("kill").args([signal, &self.child.id().to_string()]).status().unwrap().success());
    }

    fn ended(mut self) -> (i32, String) {
        let status = self.child.wait().unwrap();
        self.wait_until("all is printed", || Arc::strong_count(&self.printed) == 1);
        (status.code().unwrap(), self.printed())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Processes with this text in their command line.
fn processes_with(text: &str) -> usize {
    let all = fs::read_dir("/proc").unwrap().flatten();
    let lines = all.filter_map(|entry| fs::read_to_string(entry.path().join("cmdline")).ok());
    lines.filter(|line| line.contains(text)).count()
}

#[test]
fn sidecar_runs_until_a_signal() {
    let kodiak = Kodiak::new();
    let control_plane = ControlPlane::with_bootstrap(&kodiak);
    kodiak.file("web.yaml", DATAPLANE);
    kodiak.file("token", "the.token\n");
    envoy(&kodiak, "echo \"$@\" >$HOME/started; exec sleep 600");
    let running = Running::start(
        &kodiak,
        &control_plane,
        &["--dataplane-token-file", "token", "--work-dir", "work", "--drain-time", "1h", "--system-ca-path", "ca.pem"],
    );
    let (path, asked) = control_plane.next();
    let dataplane: Value = serde_json::from_str(asked["dataplaneResource"].as_str().unwrap()).unwrap();
    assert_eq!((path.as_str(), &asked["name"], &dataplane["mesh"]), ("/bootstrap", &json!("web-1"), &json!("default")));
    assert_eq!(dataplane["networking"]["address"], "127.0.0.1");
    assert_eq!((&asked["dataplaneToken"], &asked["dnsPort"]), (&json!("the.token"), &Value::Null));
    let ca = std::path::absolute(fs::canonicalize(kodiak.home.path()).unwrap().join("ca.pem")).unwrap();
    assert_eq!(asked["systemCaPath"], json!(ca));
    let started = kodiak.home.path().join("started");
    running.wait_until("Envoy is started", || fs::read_to_string(&started).is_ok_and(|text| text.ends_with('\n')));
    let work = fs::canonicalize(kodiak.home.path()).unwrap().join("work");
    let bootstrap = work.join("bootstrap.yaml");
    assert_eq!(fs::read_to_string(&bootstrap).unwrap(), "node: {}");
    let expected = format!(
        "--config-path {} --drain-time-s 3600 --drain-strategy immediate --disable-hot-restart \
         --file-flush-interval-msec 1000 --log-level info\n",
        bootstrap.display()
    );
    assert_eq!(fs::read_to_string(&started).unwrap(), expected);

    running.signal("-TERM");
    assert_eq!(control_plane.next(), ("/drain".to_owned(), json!({"mesh": "default", "name": "web-1"})));
    // It drains for an hour, unless a second signal arrives.
    running.signal("-INT");
    let (code, printed) = running.ended();
    assert_eq!(code, 0, "{printed}");
    assert!(printed.contains("token file is readable by all users"), "{printed}");
    assert_eq!(fs::read_dir(work).unwrap().count(), 0);
}

#[test]
fn flags_and_variables_of_kuma_dp_are_used() {
    let kodiak = Kodiak::new();
    let control_plane = ControlPlane::with_bootstrap(&kodiak);
    envoy(&kodiak, "echo \"$@\" >$HOME/started; exec sleep 600");
    let dataplane = DATAPLANE.replace("{{ name }}", "web-1").replace("{{address}}", "127.0.0.1");
    let tproxy = "kumaDPUser: x\nredirect:\n  inbound: {port: 1001}\n  dns: {enabled: false}\n";
    kodiak.file("tproxy.yaml", tproxy);
    let running = Running::start_with(
        &kodiak,
        &[
            ("KUMA_CONTROL_PLANE_URL", &control_plane.address),
            ("KUMA_CONTROL_PLANE_CA_CERT", &fs::read_to_string(kodiak.home.path().join("ca.pem")).unwrap()),
            ("KUMA_DATAPLANE_RUNTIME_ENVOY_LOG_LEVEL", "warn"),
            ("KUMA_DATAPLANE_RUNTIME_ENVOY_XDS_TRANSPORT_PROTOCOL_VARIANT", "GRPC"),
            ("KUMA_DATAPLANE_DRAIN_TIME", "90s"),
            ("KUMA_DATAPLANE_PROXY_TYPE", "dataplane"),
            ("KUMA_DATAPLANE_RUNTIME_CONCURRENCY", "3"),
            ("KUMA_READINESS_PORT", "0"),
            ("KUMA_DNS_PROMETHEUS_PORT", "19153"),
            ("PATH", &format!("{}:{}", kodiak.home.path().display(), std::env::var("PATH").unwrap())),
        ],
        &[
            &["--binary-path", "envoy", "--dataplane", &dataplane, "--dataplane-token", "the.token"][..],
            &["--config-dir", "work", "--envoy-component-log-level", "http:debug", "--dns-envoy-port", "15054"],
            &["--transparent-proxy-config", "tproxy.yaml", "--bind-outbounds", "--proxy-type=dataplane"],
            &["--dns-enabled=false", "--skip-verify=false", "--metrics-cert-path", "/c", "--metrics-key-path", "/k"],
        ]
        .concat(),
    );
    let (_, asked) = control_plane.next();
    assert_eq!((&asked["name"], &asked["dataplaneToken"]), (&json!("web-1"), &json!("the.token")));
    assert_eq!(asked.get("dataplaneTokenPath"), None);
    assert_eq!(asked["dataplaneConfig"]["redirect"]["inbound"]["port"], 1001);
    assert_eq!(asked["dataplaneConfig"]["redirect"]["dns"]["enabled"], false);
    assert_eq!(asked["metricsResources"], json!({"certPath": "/c", "keyPath": "/k"}));
    let features = asked["features"].to_string();
    assert!(features.contains("feature-bind-outbounds") && !features.contains("delta"), "{features}");
    let started = kodiak.home.path().join("started");
    running.wait_until("Envoy is started", || fs::read_to_string(&started).is_ok_and(|text| text.ends_with('\n')));
    let flags = fs::read_to_string(&started).unwrap();
    assert!(flags.contains("work/bootstrap.yaml --drain-time-s 90 "), "{flags}");
    assert!(flags.ends_with("--log-level warn --component-log-level http:debug --concurrency 3\n"), "{flags}");
    let printed = running.printed();
    for warning in [
        "--dataplane-token is visible in the process list",
        "flag of kuma-dp without effect: DNS is answered by this process flag=\"--dns-envoy-port\"",
        "variable of kuma-dp without effect variable=\"KUMA_DNS_PROMETHEUS_PORT\"",
        "settings=\"kumaDPUser\"",
    ] {
        assert!(printed.contains(warning), "{warning}: {printed}");
    }
}

#[test]
fn short_help_hides_flags_of_kuma_dp() {
    let kodiak = Kodiak::new();
    assert!(!kodiak.run(&["dp", "run", "-h"]).is(0).out.contains("--binary-path"));
    let long = kodiak.run(&["dp", "run", "--help"]).is(0).out;
    assert!(long.contains("Flags of kuma-dp") && long.contains("--binary-path"), "{long}");
}

#[test]
fn control_plane_without_drain_is_no_reason_for_a_warning() {
    let kodiak = Kodiak::new();
    let body = json!({"bootstrap": BASE64_STANDARD.encode("node: {}")}).to_string();
    let control_plane = ControlPlane::start_like_kuma(&kodiak, &body);
    kodiak.file("web.yaml", DATAPLANE);
    envoy(&kodiak, "touch $HOME/started; exec sleep 600");
    let running = Running::start(&kodiak, &control_plane, &["--drain-time", "0s"]);
    running.wait_until("Envoy is started", || kodiak.home.path().join("started").exists());
    running.wait_until("it is logged", || running.printed().contains("Envoy is started"));
    running.signal("-TERM");
    let (code, printed) = running.ended();
    assert_eq!(code, 0, "{printed}");
    assert!(!printed.contains("about to end") && !printed.contains("404"), "{printed}");
    assert_eq!(control_plane.next().0, "/bootstrap");
    assert_eq!(control_plane.next().0, "/drain");
}

#[test]
fn sidecar_exits_with_the_code_of_envoy() {
    for (what, expected) in [("exit 7", 7), ("exit 0", 1), ("kill -9 $$", 137)] {
        let kodiak = Kodiak::new();
        let control_plane = ControlPlane::with_bootstrap(&kodiak);
        kodiak.file("web.yaml", DATAPLANE);
        envoy(&kodiak, what);
        let (code, printed) = Running::start(&kodiak, &control_plane, &[]).ended();
        assert_eq!(code, expected, "{printed}");
        assert!(printed.contains("Error: Envoy exited by itself"), "{printed}");
    }
}

#[test]
fn envoy_exits_when_the_sidecar_is_killed() {
    if Command::new("setpriv").args(["--pdeathsig", "KILL", "true"]).status().is_err() {
        return skip(Need::Program, "setpriv is not there");
    }
    let kodiak = Kodiak::new();
    let control_plane = ControlPlane::with_bootstrap(&kodiak);
    kodiak.file("web.yaml", DATAPLANE);
    // The script stays what it is, so that its command line tells it from others; and ends with the test in any case.
    envoy(&kodiak, "touch $HOME/started; while [ -e $HOME/started ]; do sleep 0.1; done");
    let work = kodiak.home.path().join("w");
    let running = Running::start(&kodiak, &control_plane, &["--work-dir", work.to_str().unwrap()]);
    running.wait_until("Envoy is started", || kodiak.home.path().join("started").exists());
    let bootstrap = work.join("bootstrap.yaml").to_str().unwrap().to_owned();
    // Two for a moment, when the script is about to start another program.
    running.wait_until("Envoy is one process", || processes_with(&bootstrap) == 1);
    running.signal("-KILL");
    running.wait_until("Envoy is gone", || processes_with(&bootstrap) == 0);
}

#[test]
fn shows_the_error_of_the_control_plane() {
    let kodiak = Kodiak::new();
    let control_plane =
        ControlPlane::start(&kodiak, "422 Unprocessable Entity", "mesh: mesh \"default\" does not exist");
    kodiak.file("web.yaml", DATAPLANE);
    envoy(&kodiak, "exit 9");
    let (code, printed) = Running::start(&kodiak, &control_plane, &[]).ended();
    assert_eq!(code, 1, "{printed}");
    assert!(printed.contains("Error: Invalid request: mesh: mesh \"default\" does not exist"), "{printed}");
}

#[test]
fn waits_for_the_control_plane_until_a_signal() {
    let kodiak = Kodiak::new();
    let control_plane = ControlPlane::start(&kodiak, "404 Not Found", "");
    kodiak.file("web.yaml", DATAPLANE);
    envoy(&kodiak, "exit 9");
    let running = Running::start(&kodiak, &control_plane, &[]);
    running.wait_until("it says what it waits for", || running.printed().contains("does not have this Dataplane yet"));
    running.signal("-TERM");
    let (code, printed) = running.ended();
    assert_eq!(code, 0, "{printed}");
}

#[test]
fn rejects_invalid_arguments_before_starting_anything() {
    let kodiak = Kodiak::new();
    kodiak.file("web.yaml", DATAPLANE);
    kodiak.file("ca.pem", "");
    kodiak.file("mesh.yaml", "type: Mesh\nname: x\n");
    kodiak.file("wrong.yaml", &DATAPLANE.replace("{{ name }}", "a").replace("{{address}}", "'no address!'"));
    let missing = ["web.yaml:4:12", "the variable \"address\" is not given; pass -v address=VALUE"];
    for (arguments, code, expected) in [
        (&["-d", "web.yaml"][..], 2, &["--ca-cert-file FILE", "kodiak.crt"][..]),
        (&["-d", "web.yaml", "-v", "name=a", "--ca-cert-file", "ca.pem"], 1, &missing),
        (&["-d", "web.yaml", "--ca-cert-file", "ca.pem"], 1, &["web.yaml:2:7", "web.yaml:4:12"]),
        (&["-d", "wrong.yaml", "--ca-cert-file", "ca.pem"], 1, &["wrong.yaml:4", "networking.address"]),
        (&["-d", "mesh.yaml", "--ca-cert-file", "ca.pem"], 2, &["mesh.yaml holds a Mesh; a proxy is a Dataplane"]),
        (&["-d", "web.yaml", "--name", "x", "--ca-cert-file", "ca.pem"], 2, &["omit --name and --mesh"]),
        (&["--ca-cert-file", "ca.pem"], 2, &["--dataplane-file FILE", "--name NAME"]),
        (&["--name", "x", "--skip-verify"], 2, &["always verified", "--ca-cert-file FILE", "kuma-cp.crt"]),
        (&["--name", "x", "--proxy-type", "ingress"], 2, &["--proxy-type ingress is not supported yet"]),
        (&["--name", "x", "--proxy-type", "sidecar"], 2, &["must be dataplane"]),
        (&["--name", "x", "--binary-path", "no-such", "--ca-cert-file", "ca.pem"], 2, &["no-such is not in PATH"]),
        (&["--name", "x", "--nonsense"], 2, &["--nonsense"]),
        (&["--name", "x", "--ca-cert-file", "none.pem"], 2, &["none.pem"]),
        (&["--name", "x", "--ca-cert-file", "ca.pem", "--dataplane-token-file", "none"], 2, &["cannot read none"]),
        (&["--name", "x", "--ca-cert-file", "ca.pem", "--envoy", "/none"], 2, &["/none", "install-envoy"]),
        (&["--name", "x", "--ca-cert-file", "ca.pem", "--envoy", "/bin/sh"], 2, &["the CA file is not usable"]),
        (
            &["--name", "x", "--ca-cert-file", "ca.pem", "--envoy", "/bin/sh", "--system-ca-path", "none"],
            2,
            &["--system-ca-path none is no file"],
        ),
        (
            &["--name", "x", "--ca-cert-file", "ca.pem", "--cp-address", "http://x", "--envoy", "/bin/sh"],
            2,
            &["https://"],
        ),
    ] {
        let ran = kodiak.run(&[&["dp", "run"], arguments].concat()).is(code);
        for part in expected {
            assert!(ran.err.contains(part), "{arguments:?}: {part}: {}", ran.err);
        }
    }
}

#[test]
fn dry_run_prints_rules_and_installing_them_needs_root() {
    let kodiak = Kodiak::new();
    let install =
        |more: &[&'static str]| [&["install", "transparent-proxy", "--kodiak-dp-user", "5678"], more].concat();
    let printed =
        kodiak.run(&install(&["--backend", "nft", "--dry-run", "--exclude-inbound-ports", "22,80"])).is(0).out;
    for part in ["meta skuid 5678 return", "redirect to :15001", "redirect to :15006", "tcp dport { 22, 80 } return"] {
        assert!(printed.contains(part), "{part}: {printed}");
    }
    assert!(!printed.contains("dport 53"), "{printed}");
    let printed = kodiak.run(&install(&["--backend", "iptables", "--dry-run", "--redirect-dns"])).is(0).out;
    assert!(printed.contains("--dport 53") && printed.contains("--to-ports 15053"), "{printed}");
    let by_name = ["install", "transparent-proxy", "--kuma-dp-user", "root", "--backend", "nft", "--dry-run"];
    assert!(kodiak.run(&by_name).is(0).out.contains("meta skuid 0 return"));
    let removed = kodiak.run(&["uninstall", "transparent-proxy", "--backend", "nft", "--dry-run"]).is(0).out;
    assert!(removed.contains("delete table ip kodiak_transparent_proxy"), "{removed}");
    let nobody = kodiak.run(&["install", "transparent-proxy", "--kodiak-dp-user", "no-such-user"]).is(2);
    assert!(nobody.err.contains("there is no user \"no-such-user\""), "{}", nobody.err);
    refused_without_the_right(&install(&["--backend", "nft"]));
}

fn refused_without_the_right(arguments: &[&str]) {
    let mut command = Command::new("setpriv");
    command.args(["--bounding-set=-net_admin", "--inh-caps=-all"]).arg(Path::new(env!("CARGO_BIN_EXE_kodiak")));
    match command.args(arguments).output() {
        Ok(output) => {
            let text = String::from_utf8_lossy(&output.stderr);
            // Without root, setpriv may not do this, and the rules could not be made anyway.
            let may_not = text.starts_with("setpriv:");
            assert!(may_not || output.status.code() == Some(1) && text.contains("CAP_NET_ADMIN"), "{text}");
        }
        Err(error) => skip(Need::Program, &format!("setpriv: {error}")),
    }
}
