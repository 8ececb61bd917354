//! `kodiak run` with the configuration of Kuma.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

use crate::Kodiak;

const KUMA: &str = "\
mode: zone
store: {type: memory}
xdsServer: {dataplaneDeregistrationDelay: 7s, nackBackoff: 5s}
multizone: {zone: {name: east, kds: {refreshInterval: 1s}}}
";

#[test]
fn configuration_of_kuma_is_shown_with_its_origin() {
    let kodiak = Kodiak::new();
    kodiak.file("kuma-cp.yaml", KUMA);
    for flag in ["-c", "--config-file", "-f", "--file"] {
        let out = kodiak.run(&["run", flag, "kuma-cp.yaml", "--show-config"]).is(0).out;
        for line in [
            "  dataplaneDeregistrationDelaySeconds: 7",
            "#   xdsServer.dataplaneDeregistrationDelaySeconds by xdsServer.dataplaneDeregistrationDelay in kuma-cp.yaml:3:43",
            "#   xdsServer.nackBackoff: not needed: a rejected version is not sent again",
            "#   multizone.zone.kds: not supported: several zones",
        ] {
            assert!(out.lines().any(|it| it == line), "{flag}: {line}\n{out}");
        }
    }
    let ran = kodiak.run(&["run", "-c", "kuma-cp.yaml", "-f", "kuma-cp.yaml", "--show-config"]).is(2);
    assert!(ran.err.contains("cannot be used with"), "{}", ran.err);
}

#[test]
fn client_configuration_is_not_that_of_the_control_plane() {
    let kodiak = Kodiak::new();
    let client = kodiak.file("client", "contexts: []\n");
    let output = Command::new(env!("CARGO_BIN_EXE_kodiak"))
        .args(["run", "--show-config"])
        .env("HOME", kodiak.home.path())
        .env("KODIAK_CONFIG", &client)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(!String::from_utf8_lossy(&output.stdout).contains('#'));
}

#[test]
fn global_mode_is_refused() {
    let kodiak = Kodiak::new();
    kodiak.file("kuma-cp.yaml", "mode: global\n");
    let ran = kodiak.run(&["run", "-c", "kuma-cp.yaml"]).is(2);
    assert!(ran.err.contains("kuma-cp.yaml:1:7: mode: \"global\" is not supported"), "{}", ran.err);
}

#[test]
fn start_logs_a_short_line_and_the_settings_without_effect() {
    let kodiak = Kodiak::new();
    kodiak.file("kuma-cp.yaml", KUMA);
    let ports = ["apiServer.http", "apiServer.https", "dpServer"].map(|server| format!("{server}.port=0"));
    let others = ["diagnostics.serverPort=0", "diagnostics.healthPort=0", "monitoringAssignmentServer.port=0"];
    let ports = ports.into_iter().chain(others.map(str::to_owned));
    let mut control_plane = Command::new(env!("CARGO_BIN_EXE_kodiak"))
        .args(["run", "-c", "kuma-cp.yaml"])
        .args(ports.flat_map(|port| ["--set".to_owned(), port]))
        .current_dir(kodiak.home.path())
        .env("HOME", kodiak.home.path())
        .env_remove("RUST_LOG")
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let log = BufReader::new(control_plane.stderr.take().unwrap());
    let lines: Vec<String> = log.lines().take(2).map(Result::unwrap).collect();
    control_plane.kill().unwrap();
    control_plane.wait().unwrap();
    assert!(lines[0].contains("starting control plane") && lines[0].len() < 200, "{lines:?}");
    let expected = "not needed: a rejected version is not sent again (xdsServer.nackBackoff); \
                    not supported: several zones (multizone.zone.kds)";
    assert!(lines[1].contains("settings of Kuma without effect") && lines[1].contains(expected), "{lines:?}");
}
