//! The command as users run it, against a control plane in this process.

#![allow(clippy::needless_raw_string_hashes, reason = "expect-test writes them")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod apply;
mod bench;
mod calls;
mod config;
mod demo;
mod diff;
mod dp;
mod generate;
mod inspect;
mod migrate;
mod migrate_kuma;
mod policies;
mod read;
mod references;
mod render;
mod run;
mod server;
mod socket;
mod store;
mod trusted;

use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// Has its own home folder, so that no configuration of the user is read or written.
struct Kodiak {
    home: tempfile::TempDir,
}

/// Result of a run.
#[derive(Debug)]
struct Ran {
    code: i32,
    out: String,
    err: String,
}

impl Kodiak {
    fn new() -> Self {
        Self { home: tempfile::tempdir().unwrap() }
    }

    fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.home.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        path
    }

    fn run(&self, args: &[&str]) -> Ran {
        self.run_with(args, "")
    }

    fn run_with(&self, args: &[&str], stdin: &str) -> Ran {
        let mut child = Command::new(env!("CARGO_BIN_EXE_kodiak"))
            .args(args)
            .current_dir(self.home.path())
            .env("HOME", self.home.path())
            .env_remove("KODIAK_CONFIG")
            .env_remove("RUST_LOG")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(stdin.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        Ran { code: output.status.code().unwrap(), out: text(output.stdout), err: text(output.stderr) }
    }
}

impl Ran {
    #[track_caller]
    fn is(self, code: i32) -> Self {
        assert_eq!(self.code, code, "out:\n{}\nerr:\n{}", self.out, self.err);
        self
    }
}

fn timeout(name: &str, value: &str) -> String {
    format!(
        "type: MeshTimeout\nname: {name}\nmesh: default\nspec:\n  to:\n  - targetRef: {{kind: Mesh}}\n    default:\n      connectionTimeout: {value}\n"
    )
}

#[test]
fn help_and_wrong_usage() {
    let kodiak = Kodiak::new();
    let help = kodiak.run(&["--help"]).is(0);
    assert!(help.out.contains("Examples:") && help.out.contains("Exit codes:"), "{}", help.out);
    kodiak.run(&["apply", "--nonsense"]).is(2);
    kodiak.run(&["apply"]).is(2);
    kodiak.run(&["get", "meshtimout"]).is(2);
    let missing = kodiak.run(&["apply", "-f", "none.yaml"]).is(2);
    assert!(missing.err.contains("none.yaml"), "{}", missing.err);
    kodiak.run(&["apply", "-f", "x.yaml", "-v", "novalue"]).is(2);
    assert!(kodiak.run(&["completion", "bash"]).is(0).out.contains("kodiak"));
}

#[test]
fn unreachable_control_plane_is_reported_with_advice() {
    let kodiak = Kodiak::new();
    // Port that was free just now.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let url = format!("http://localhost:{port}");
    let ran = kodiak.run(&["--cp", &url, "get", "meshtimeouts"]).is(3);
    for part in [url.as_str(), "refused", "kodiak run", "--cp URL", "config control-planes add"] {
        assert!(ran.err.contains(part), "{part}: {}", ran.err);
    }
    let version = kodiak.run(&["--cp", &url, "version"]).is(3);
    assert!(version.out.contains("Client: Kodiak") && version.out.contains("cannot reach"), "{}", version.out);
}

#[test]
fn commands_of_kumactl_that_exist_elsewhere_say_where() {
    let kodiak = Kodiak::new();
    for (command, part) in [
        ("install control-plane --mode zone | kubectl apply -f -", "`kodiak run`"),
        ("install crds", "kodiak apply"),
        ("install demo", "`kodiak demo`"),
        ("install observability --components grafana", "monitoring.md"),
        ("inspect zoneingress in --type stats", "zoneingresses"),
        ("inspect dataplanes --ingress", "zoneingresses"),
        ("export --format kubernetes", "format=k8s"),
        ("config control-planes add --name a --address https://cp --skip-verify", "--ca-cert-file"),
    ] {
        let ran = kodiak.run(&command.split(' ').collect::<Vec<_>>()).is(2);
        assert!(ran.err.contains(part), "{command}: {}", ran.err);
    }
}

#[test]
fn request_times_out() {
    let (kodiak, server) = (Kodiak::new(), server::Server::start());
    server.with(|state| state.asleep = true);
    let ran = kodiak.run(&["--cp", &server.url(), "--api-timeout", "200ms", "get", "zones"]).is(3);
    assert!(ran.err.contains("did not answer within 200ms"), "{}", ran.err);
}
