//! Validation rejects exactly the regular expressions that a real Envoy rejects.

use std::{fs, path::Path, process::Command};

use kodiak_model::re2;
use kodiak_testkit::envoy;
use serde_json::{Value, json};

/// Envoy's result for each expression when the table was written; kodiak-model is tested with it.
const TABLE: &str = include_str!("../../../../core/kodiak-model/src/re2/table.txt");
/// Number of concurrent Envoys.
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
fn validation_rejects_exactly_the_expressions_that_envoy_rejects() {
    let Some(program) = envoy::envoy() else { return };
    let expressions = TABLE.lines().filter_map(|line| line.split_once(' ')).filter(|(verdict, _)| *verdict != "#");
    let (accepted, refused): (Vec<&str>, Vec<&str>) =
        expressions.map(|(_, expression)| expression).partition(|expression| re2::check(expression).is_ok());
    assert!(accepted.len() > 40 && refused.len() > 40, "{} and {}", accepted.len(), refused.len());
    // One rejected expression makes Envoy reject all; so accepted ones can be loaded together.
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
