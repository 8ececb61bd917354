//! A real Envoy loads the configuration of every case.

use std::fs;
use std::path::Path;
use std::process::Command;

use kodiak_engine::redacted;
use kodiak_testkit::envoy::envoy;
use kodiak_xds_stream::{Snapshot, TypeUrl};
use serde_json::{Value, json};

#[test]
fn envoy_loads_the_configuration_of_every_case() {
    let Some(program) = envoy() else { return };
    let mut refused = Vec::new();
    for (path, case) in super::all() {
        if let Err(error) = load(program, &bootstrap(&case.config().unwrap())) {
            refused.push(format!("{}: {error}", path.display()));
        }
    }
    assert!(refused.is_empty(), "{}", refused.join("\n"));
}

#[test]
fn envoy_rejects_invalid_configuration() {
    let Some(program) = envoy() else { return };
    let (_, case) = super::all().remove(0);
    let mut bootstrap = bootstrap(&case.config().unwrap());
    bootstrap["staticResources"]["clusters"][1]["connectTimeout"] = json!("0s");
    let error = load(program, &bootstrap).unwrap_err();
    assert!(error.contains("ClusterValidationError.ConnectTimeout"), "{error}");
}

/// All resources are static; only secrets would come from a control plane.
pub(crate) fn bootstrap(config: &Snapshot) -> Value {
    let config = redacted::config(config).unwrap();
    let of = |type_url: TypeUrl| {
        let resources = config[type_url.as_str()].as_object().cloned().unwrap_or_default();
        resources.into_iter().map(|(_, resource)| resource).collect::<Vec<Value>>()
    };
    let mut clusters = of(TypeUrl::Cluster);
    let assignments = of(TypeUrl::Endpoint);
    for cluster in clusters.iter_mut().filter(|cluster| cluster["type"] == "EDS") {
        let fields = cluster.as_object_mut().unwrap();
        let assignment = assignments.iter().find(|one| one["clusterName"] == fields["name"]);
        fields.remove("edsClusterConfig");
        fields.insert("type".to_owned(), json!("STATIC"));
        fields.insert("loadAssignment".to_owned(), assignment.unwrap().clone());
    }
    clusters.iter_mut().for_each(secrets_without_ads);
    clusters.insert(0, json!({ "name": "control_plane", "connectTimeout": "1s", "http2ProtocolOptions": {} }));
    let service = json!({ "envoyGrpc": { "clusterName": "control_plane" } });
    json!({
        "node": { "id": "default.proxy", "cluster": "proxy" },
        "dynamicResources": {
            "adsConfig": { "apiType": "DELTA_GRPC", "transportApiVersion": "V3", "grpcServices": [service] },
        },
        "staticResources": { "listeners": of(TypeUrl::Listener), "clusters": clusters },
    })
}

/// A static cluster cannot have its secrets from ADS, which Envoy connects after the static clusters: it would crash.
fn secrets_without_ads(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                if name == "sdsConfig" {
                    let service = json!({ "envoyGrpc": { "clusterName": "control_plane" } });
                    let source = json!({ "apiType": "GRPC", "transportApiVersion": "V3", "grpcServices": [service] });
                    *value = json!({ "apiConfigSource": source, "resourceApiVersion": "V3" });
                } else {
                    secrets_without_ads(value);
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(secrets_without_ads),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => (),
    }
}

/// The error is Envoy's.
pub(crate) fn load(program: &Path, bootstrap: &Value) -> Result<(), String> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("bootstrap.json");
    fs::write(&file, bootstrap.to_string()).unwrap();
    let mut command = Command::new(program);
    command.args(["--mode", "validate", "--use-dynamic-base-id", "--concurrency", "1", "-c"]);
    let output = command.arg(&file).output().unwrap();
    if output.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&output.stderr).into_owned()) }
}
