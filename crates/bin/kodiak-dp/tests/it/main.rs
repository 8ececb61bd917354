//! The real Envoy takes what we build, refuses what is wrong, starts, and ends; by itself, and with its runner.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod bootstrap;
mod control_plane;
mod permissions;
mod redirection;
mod resources;
mod runner;
mod running;
mod simulator;

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use kodiak_dp::envoy::{PINNED, Version};
use kodiak_envoy::envoy::config::bootstrap::v3::Bootstrap;
use kodiak_envoy::json::to_json;
use kodiak_testkit::envoy::envoy;
use running::Running;

/// Writes it where Envoy takes it for JSON.
fn write(bootstrap: &Bootstrap, folder: &Path) -> std::path::PathBuf {
    let file = folder.join("bootstrap.json");
    fs::write(&file, to_json(bootstrap).unwrap().to_string()).unwrap();
    file
}

fn validate(envoy: &Path, bootstrap: &Bootstrap) -> Output {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(envoy);
    command.args(["--mode", "validate", "--use-dynamic-base-id", "--concurrency", "1", "-c"]);
    command.arg(write(bootstrap, folder.path())).output().unwrap()
}

#[test]
fn the_version_is_the_pinned_one() {
    let Some(envoy) = envoy() else { return };
    assert_eq!(Version::of_usable(envoy).unwrap(), PINNED);
    assert_eq!(PINNED.to_string(), "1.40.0");
}

#[test]
fn what_we_build_is_accepted() {
    let Some(envoy) = envoy() else { return };
    let output = validate(envoy, &bootstrap::direct_response("hello"));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = [output.stdout, output.stderr].concat();
    assert!(String::from_utf8_lossy(&text).contains("bootstrap.json' OK"), "{}", String::from_utf8_lossy(&text));
}

#[test]
fn what_is_wrong_is_refused_with_the_reason() {
    let Some(envoy) = envoy() else { return };
    let mut nameless = bootstrap::direct_response("hello");
    nameless.static_resources.as_mut().unwrap().clusters[0].name.clear();
    let mut without_key = bootstrap::direct_response("hello");
    bootstrap::spoil_key(&mut without_key);
    for (wrong, reason) in [(nameless, "ClusterValidationError.Name"), (without_key, "private key")] {
        let output = validate(envoy, &wrong);
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && text.contains(reason), "{text}");
    }
}

#[test]
fn it_starts_serves_and_leaves_nothing() {
    let Some(envoy) = envoy() else { return };
    let running = Running::start(envoy, &bootstrap::direct_response("hello from Envoy"));
    running.wait_until_live();
    let listener = running.listener("inbound");
    let answer = running::get(&listener, "/any/path").unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.ends_with("\r\n\r\nhello from Envoy"), "{answer}");
    let traces = running.end();
    assert!(traces.is_empty(), "left behind: {traces:?}");
}
