//! Regular expressions that are refused when they are written are those that a real Envoy refuses.

use std::{fs, path::Path, process::Command};

use kodiak_model::re2;
use kodiak_testkit::envoy;
use serde_json::{Value, json};

/// What Envoy made of each expression when the table was written; kodiak-model is tested with it.
const TABLE: &str = include_str!("../../../../core/kodiak-model/src/re2/table.txt");
/// Envoys that run at the same time.
const WORKERS: usize = 2;

fn bootstrap(expressions: &[&str]) -> Value {
    let route = |expression: &&str| json!({ "match": { "safeRegex": { "regex": expression } }, "directResponse": { "status": 200 } });
    let routes: Vec<Value> = expressions.iter().map(route).collect();
    let typed = |name: &str| format!("type.googleapis.com/envoy.extensions.filters.{name}");
    let http_filter = json!({ "name": "router", "typedConfig": { "@type": typed("http.router.v3.Router") } });
    let manager = json!({
        "@type": typed("network.http_connection_manager.v3.HttpConnectionManager"),
        "statPrefix": "test",
        "routeConfig": { "virtualHosts": [{ "name": "all", "domains": ["*"], "routes": routes }] },
        "httpFilters": [http_filter],
    });
    let filter = json!({ "name": "http", "typedConfig": manager });
    let address = json!({ "socketAddress": { "address": "127.0.0.1", "portValue": 0 } });
    let listener = json!({ "name": "listener", "address": address, "filterChains": [{ "filters": [filter] }] });
    let limits = json!({ "re2.max_program_size.error_level": u32::MAX });
    json!({
        "layeredRuntime": { "layers": [{ "name": "limits", "staticLayer": limits }] },
        "staticResources": { "listeners": [listener] },
    })
}

fn loads(program: &Path, expressions: &[&str]) -> Result<(), String> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("bootstrap.json");
    fs::write(&file, bootstrap(expressions).to_string()).unwrap();
    let mut command = Command::new(program);
    command.args(["--mode", "validate", "--use-dynamic-base-id", "--concurrency", "1", "-c"]);
    let output = command.arg(&file).output().unwrap();
    if output.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&output.stderr).into_owned()) }
}

#[test]
fn expressions_are_refused_if_and_only_if_envoy_refuses_them() {
    let Some(program) = envoy::envoy() else { return };
    let expressions = TABLE.lines().filter_map(|line| line.split_once(' ')).filter(|(verdict, _)| *verdict != "#");
    let (accepted, refused): (Vec<&str>, Vec<&str>) =
        expressions.map(|(_, expression)| expression).partition(|expression| re2::check(expression).is_ok());
    assert!(accepted.len() > 40 && refused.len() > 40, "{} and {}", accepted.len(), refused.len());
    // One that it refuses is enough for Envoy to refuse all; so those that are accepted can go together.
    loads(program, &accepted).unwrap();
    std::thread::scope(|scope| {
        for part in refused.chunks(refused.len().div_ceil(WORKERS)) {
            scope.spawn(move || {
                for expression in part {
                    assert!(loads(program, &[expression]).is_err(), "Envoy accepts {expression}");
                }
            });
        }
    });
}
