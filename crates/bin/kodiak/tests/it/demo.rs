//! `kodiak demo` with a real Envoy: all calls work, and nothing is left behind.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;
use std::process::{Child, ChildStderr, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use http_body_util::{BodyExt as _, Empty};
use hyper::body::Bytes;
use hyper_util::{client::legacy::Client, rt::TokioExecutor};
use kodiak_testkit::{
    envoy::envoy,
    skip::{Need, skip},
};
use serde_json::Value;
use tempfile::TempDir;

const PATIENCE: Duration = Duration::from_mins(1);
/// Environment variable of all processes of a demo; its value is the folder of the demo.
const MARK: &str = "MARK_OF_THE_TEST";

/// Demo with its own temporary folder. Killed when dropped.
struct Running {
    child: Child,
    stdout: BufReader<ChildStdout>,
    stderr: BufReader<ChildStderr>,
    folder: TempDir,
}

impl Running {
    fn start(args: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_kodiak"));
        command.arg("demo").args(args).env("HOME", folder.path()).env("TMPDIR", folder.path()).env_remove("RUST_LOG");
        command.env(MARK, folder.path()).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let stderr = BufReader::new(child.stderr.take().unwrap());
        Self { child, stdout, stderr, folder }
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        line
    }

    /// Command lines of processes of this demo that are still running.
    fn processes(&self) -> Vec<String> {
        let mark = format!("{MARK}={}", self.folder.path().display());
        let marked = |process: &Path| {
            let environment = fs::read(process.join("environ")).unwrap_or_default();
            environment.split(|byte| *byte == 0).any(|variable| variable == mark.as_bytes())
        };
        let all = fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
        let command =
            |process: &Path| String::from_utf8_lossy(&fs::read(process.join("cmdline")).unwrap()).into_owned();
        all.filter(|process| marked(process)).map(|process| command(&process)).collect()
    }

    fn signal(&self, signal: &str) {
        let status = Command::new("kill").args([signal, &self.child.id().to_string()]).status().unwrap();
        assert!(status.success());
    }

    /// Exit code and remaining output.
    fn end(&mut self) -> (Option<i32>, String, String) {
        let (mut out, mut err) = (String::new(), String::new());
        self.stdout.read_to_string(&mut out).unwrap();
        self.stderr.read_to_string(&mut err).unwrap();
        (self.child.wait().unwrap().code(), out, err)
    }

    #[track_caller]
    fn leaves_no_process(&self) {
        let deadline = Instant::now() + PATIENCE;
        while !self.processes().is_empty() {
            assert!(Instant::now() < deadline, "still there: {:#?}", self.processes());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    #[track_caller]
    fn leaves_nothing(&self) {
        self.leaves_no_process();
        let left: Vec<_> = fs::read_dir(self.folder.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
        assert!(left.is_empty(), "{left:?}");
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Demo that is ready, and its Envoy.
fn demo(more: &[&str]) -> Option<Running> {
    let envoy = envoy()?.to_str().unwrap();
    Some(Running::start(&[&["--json", "--envoy", envoy], more].concat()))
}

#[track_caller]
fn event(line: &str, expected: &str) -> Value {
    let value: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line:?}"));
    assert_eq!(value["event"], expected, "{line}");
    value
}

#[test]
fn demo_runs_without_failed_requests() {
    let Some(mut demo) = demo(&["--for", "3s"]) else { return };
    let (code, out, err) = demo.end();
    assert_eq!(code, Some(0), "{out}{err}");
    let [ready, seconds @ .., end] = &out.lines().collect::<Vec<_>>()[..] else { panic!("{out}") };
    event(ready, "ready");
    for line in seconds {
        event(line, "second");
    }
    let end = event(end, "end");
    assert_eq!((&end["failed"], &end["proxies"], &end["services"]), (&0.into(), &6.into(), &5.into()), "{end:#}");
    let edges = end["edges"].as_array().unwrap();
    assert_eq!(edges.len(), 5);
    let through = |edge: &Value| edge["requests"].as_u64().unwrap() > 0 && edge["mtls"] == true;
    assert!(edges.iter().all(through), "{end:#}");
    assert!(end["journey"]["requests"].as_u64().unwrap() > 0 && end["refused"].as_u64().unwrap() > 0, "{end:#}");
    assert!(end["p50_ms"].as_f64().unwrap() <= end["p99_ms"].as_f64().unwrap(), "{end:#}");
    for proxy in end["envoys"].as_array().unwrap() {
        assert!(proxy["listeners"].as_u64().unwrap() > 0 && proxy["bytes"].as_u64().unwrap() > 0, "{proxy:#}");
        assert!(proxy["acknowledged"].is_u64(), "{proxy:#}");
    }
    demo.leaves_nothing();
}

#[test]
fn call_without_permission_counts_as_failed() {
    let Some(mut demo) = demo(&["--for", "1h"]) else { return };
    let ready = event(&demo.line(), "ready");
    let ran = super::Kodiak::new().run(&[
        "--cp",
        ready["api"].as_str().unwrap(),
        "delete",
        "meshtrafficpermission",
        "users-to-db",
    ]);
    ran.is(0);
    let deadline = Instant::now() + PATIENCE;
    while event(&demo.line(), "second")["failed"] == 0 {
        assert!(Instant::now() < deadline, "still permitted");
    }
    demo.signal("-INT");
    let (code, out, err) = demo.end();
    assert_eq!(code, Some(1), "{out}{err}");
    let end = event(out.lines().last().unwrap(), "end");
    let failed: Vec<_> = end["edges"].as_array().unwrap().iter().filter(|edge| edge["failed"] != 0).collect();
    assert_eq!(failed.len(), 1, "{end:#}");
    assert_eq!((&failed[0]["from"], &failed[0]["to"]), (&"users".into(), &"db".into()));
    assert!(failed[0]["last_failure"].as_str().unwrap().starts_with("403 "), "{end:#}");
    demo.leaves_nothing();
}

#[test]
fn leaves_nothing_behind_on_sigint() {
    let Some(mut demo) = demo(&[]) else { return };
    event(&demo.line(), "ready");
    let running = demo.processes();
    assert_eq!(running.len(), 1 + 6 + 6, "itself, its services and their proxies: {running:#?}");
    demo.signal("-TERM");
    let (code, out, err) = demo.end();
    assert!(code.is_some(), "{err}");
    event(out.lines().last().unwrap(), "end");
    demo.leaves_nothing();
}

#[test]
fn leaves_nothing_behind_when_interrupted_while_starting() {
    let Some(mut demo) = demo(&[]) else { return };
    let mut line = String::new();
    while !line.starts_with("Starting 5 services") {
        line.clear();
        assert_ne!(demo.stderr.read_line(&mut line).unwrap(), 0);
    }
    demo.signal("-TERM");
    let (code, out, err) = demo.end();
    assert_eq!((code, out.as_str()), (Some(1), ""), "{err}");
    assert!(err.contains("interrupted while starting"), "{err}");
    demo.leaves_nothing();
}

#[test]
fn child_processes_exit_when_the_demo_is_killed() {
    let Some(mut demo) = demo(&[]) else { return };
    event(&demo.line(), "ready");
    demo.signal("-KILL");
    demo.leaves_no_process();
}

#[test]
fn leaves_nothing_behind_with_an_invalid_envoy() {
    let mut demo = Running::start(&["--envoy", "/nowhere/envoy"]);
    let (code, out, err) = demo.end();
    assert_eq!((code, out.as_str()), (Some(2), ""));
    assert!(err.contains("/nowhere/envoy"), "{err}");
    demo.leaves_nothing();
}

/// Echo service and its address.
fn echo(args: &[&str]) -> (Running, String) {
    let mut echo = Running::start(&[&["echo"], args].concat());
    let line = echo.line();
    let (name, address) = line.trim_end().split_once(" listens on ").unwrap();
    assert_eq!(name, args[1]);
    (echo, format!("http://{address}"))
}

#[tokio::test]
async fn echo_services_return_requests_and_call_each_other() {
    let (mut db, db_url) = echo(&["--name", "db"]);
    let (_api, api_url) = echo(&["--name", "api", "--next", &format!("db={db_url}")]);
    for http2_only in [false, true] {
        let client: Client<_, Empty<Bytes>> = Client::builder(TokioExecutor::new()).http2_only(http2_only).build_http();
        let get = async |path: &str| {
            let response = client.get(format!("{api_url}{path}").parse().unwrap()).await.unwrap();
            let status = response.status().as_u16();
            let body = response.into_body().collect().await.unwrap().to_bytes();
            (status, serde_json::from_slice::<Value>(&body).unwrap())
        };
        let (status, answer) = get("/some/path?x").await;
        assert_eq!((status, &answer["name"], &answer["path"]), (200, &"api".into(), &"/some/path".into()));
        let (status, answer) = get("/via/db/rows/1").await;
        let next = &answer["next"];
        assert_eq!((status, &next["name"], &next["path"]), (200, &"db".into(), &"/rows/1".into()), "{answer:#}");
        assert!(next["headers"]["host"].is_string(), "{answer:#}");
        assert_eq!(get("/via/nobody").await.0, 404);
    }
    db.signal("-TERM");
    assert_eq!(db.end().0, Some(0));
    let client: Client<_, Empty<Bytes>> = Client::builder(TokioExecutor::new()).build_http();
    let gone = client.get(format!("{api_url}/via/db").parse().unwrap()).await.unwrap();
    assert_eq!(gone.status().as_u16(), 502);
}

#[test]
fn client_counts_requests_by_result() {
    let (mut echo, url) = echo(&["--name", "a"]);
    let kodiak = super::Kodiak::new();
    let client = |more: &[&str]| kodiak.run(&[&["demo", "client", "--for", "1s", "--json", "--url"], more].concat());
    let last = |ran: super::Ran| serde_json::from_str::<Value>(ran.out.lines().last().unwrap()).unwrap();
    let fine = last(client(&[&url, "--rate", "100"]).is(0));
    assert_eq!((&fine["failed"], &fine["answered_by"]["a"]), (&0.into(), &fine["requests"]), "{fine:#}");
    assert!(fine["p99_ms"].is_f64(), "{fine:#}");
    let wrong = last(client(&[&url, "--expect", "403"]).is(1));
    assert_eq!(wrong["failed"], wrong["requests"], "{wrong:#}");
    assert!(wrong["last_failure"].as_str().unwrap().starts_with("200 OK"), "{wrong:#}");
    echo.signal("-TERM");
    assert_eq!(echo.end().0, Some(0));
    let gone = last(client(&[&url]).is(1));
    assert!(gone["failed"].as_u64().unwrap() > 0 && gone["p50_ms"].is_null(), "{gone:#}");
    client(&["ftp://a/"]).is(2);
}

/// The last event of a scenario whose steps follow each other quickly.
fn scenario(name: &str, time: &str) -> Option<Value> {
    let mut demo = demo(&["--scenario", name, "--step", "2s", "--for", time])?;
    let (code, out, err) = demo.end();
    assert_eq!(code, Some(0), "{out}{err}");
    let steps: Vec<Value> = out.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let steps = steps.iter().filter(|event| event["event"] == "step").count();
    let end = event(out.lines().last().unwrap(), "end");
    assert_eq!(end["scenario"]["steps"], steps, "{end:#}");
    demo.leaves_nothing();
    Some(end)
}

#[test]
fn rate_limit_scenario_rejects_a_part_of_the_requests() {
    let Some(end) = scenario("rate-limit", "8s") else { return };
    let statuses = &end["scenario"]["statuses"];
    assert!(statuses["200"].as_u64() > Some(0) && statuses["429"].as_u64() > Some(0), "{end:#}");
}

#[test]
fn faults_scenario_aborts_a_part_of_the_requests() {
    let Some(end) = scenario("faults", "10s") else { return };
    let statuses = &end["scenario"]["statuses"];
    assert!(statuses["200"].as_u64() > Some(0) && statuses["500"].as_u64() > Some(0), "{end:#}");
}

#[test]
fn health_scenario_uses_the_instance_again_without_a_failed_request() {
    let Some(end) = scenario("health", "14s") else { return };
    assert_eq!(end["failed"], 0, "{end:#}");
    assert!(end["scenario"]["answered_by"]["api-2"].as_u64() > Some(0), "{end:#}");
}

#[test]
fn canary_scenario_ends_with_the_new_version_alone() {
    let Some(end) = scenario("canary", "20s") else { return };
    let answered = end["scenario"]["answered_by"].as_object().unwrap();
    assert_eq!(answered.keys().collect::<Vec<_>>(), ["api-2"], "{end:#}");
}

#[test]
fn tracing_scenario_shows_one_trace_over_several_services() {
    let Some(end) = scenario("tracing", "10s") else { return };
    let services = end["scenario"]["trace"]["services"].as_array().map_or(0, Vec::len);
    assert!(services >= 3, "{end:#}");
}

#[test]
fn trimming_scenario_goes_through_the_guide_without_a_failed_request() {
    let Some(mut demo) = demo(&["--scenario", "trimming", "--step", "5s", "--for", "75s"]) else { return };
    let (code, out, err) = demo.end();
    if code == Some(2) {
        return skip(Need::Root, &err);
    }
    assert_eq!(code, Some(0), "{out}{err}");
    let events: Vec<Value> = out.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let steps: Vec<&Value> = events.iter().filter(|event| event["event"] == "step").collect();
    assert_eq!(steps.len(), 6, "{out}");
    for step in &steps {
        let output = step["output"].as_str().unwrap();
        assert!(!step["commands"].as_str().unwrap().is_empty() && !output.contains("deprecated"), "{step:#}");
    }
    assert!(steps[4]["output"].as_str().unwrap().contains("REMOVED CLUSTERS"), "{:#}", steps[4]);
    let end = events.last().unwrap();
    assert_eq!((&end["event"], &end["failed"]), (&"end".into(), &0.into()), "{end:#}");
    let clusters = |event: &Value, name: &str| {
        let envoys = event["envoys"].as_array().unwrap();
        envoys.iter().find(|envoy| envoy["name"] == name).unwrap()["clusters"].as_u64().unwrap()
    };
    let first = events.iter().find(|event| event["event"] == "second").unwrap();
    // Four destinations less: it calls api alone.
    assert_eq!(clusters(first, "web-1") - clusters(end, "web-1"), 4, "{end:#}");
    demo.leaves_nothing();
}

#[test]
fn scenarios_are_listed() {
    let ran = super::Kodiak::new().run(&["demo", "--list"]);
    let names = ["rate-limit", "faults", "health", "canary", "tracing", "trimming"];
    assert!(names.iter().all(|name| ran.out.contains(name)), "{}", ran.out);
    let wrong = super::Kodiak::new().run(&["demo", "--scenario", "nothing"]);
    assert!(wrong.err.contains("rate-limit"), "{}", wrong.err);
}
