//! `kodiak store`, with a running control plane, and with its file.

use std::fs;

use kodiak_cp::{Config, ControlPlane};
use tokio::runtime::Runtime;

use crate::Kodiak;

fn config(kodiak: &Kodiak) -> Config {
    let mut config = Config::default();
    config.general.work_dir = kodiak.home.path().join("cp");
    config.api_server.http.port = 0;
    config.api_server.https.enabled = false;
    config.diagnostics.interface = "127.0.0.1".parse().unwrap();
    config.diagnostics.server_port = 0;
    config.diagnostics.health_port = 0;
    config.monitoring_assignment_server.port = 0;
    config.dp_server.interface = "127.0.0.1".parse().unwrap();
    config.dp_server.port = 0;
    config
}

#[test]
fn running_control_plane_is_backed_up_and_restored() {
    let kodiak = Kodiak::new();
    let runtime = Runtime::new().unwrap();
    let cp = runtime.block_on(ControlPlane::start(config(&kodiak))).unwrap();
    let url = format!("http://{}", cp.http.unwrap());
    let secret = kodiak.file("secret.yaml", "type: Secret\nmesh: default\nname: s\ndata: c2VjcmV0LXRleHQ=\n");
    let put = || kodiak.run(&["--cp", &url, "apply", "-f", &secret.to_string_lossy()]);
    let mut applied = put();
    // The default mesh is created during the start.
    while applied.code != 0 && applied.err.contains("no mesh") {
        applied = put();
    }
    assert_eq!(applied.code, 0, "{applied:?}");

    let backup = kodiak.run(&["--cp", &url, "store", "backup", "out.backup"]);
    assert_eq!(backup.code, 0, "{backup:?}");
    assert!(backup.err.contains("NOT in the backup"), "{backup:?}");
    let text = fs::read_to_string(kodiak.home.path().join("out.backup")).unwrap();
    assert!(text.contains(r#""name":"s""#) && !text.contains("c2VjcmV0LXRleHQ="), "it is there, and sealed");
    assert_eq!(kodiak.run(&["--cp", &url, "store", "backup", "out.backup"]).code, 2, "nothing is overwritten");
    let path = kodiak.home.path().join("cp/kodiak.redb");
    let store = path.to_string_lossy();
    let locked = kodiak.run(&["store", "check", "--path", &store]);
    assert!(locked.code == 1 && locked.err.contains("in use by another process"), "{locked:?}");
    runtime.block_on(cp.stop()).unwrap();

    assert_eq!(kodiak.run(&["store", "check", "--path", &store]).code, 0);
    let mut bytes = fs::read(&path).unwrap();
    // Labels of the default policies of a mesh.
    let found: Vec<_> = (0..bytes.len()).filter(|at| bytes[*at..].starts_with(b"\"kuma.io/mesh\"")).collect();
    assert!(!found.is_empty());
    for at in found {
        bytes[at + 3] ^= 1;
    }
    fs::write(&path, bytes).unwrap();
    let damaged = kodiak.run(&["store", "check", "--path", &store, "-o", "json"]);
    let shown: serde_json::Value = serde_json::from_str(&damaged.out).unwrap();
    assert_eq!((damaged.code, shown["damaged"].as_array().unwrap().is_empty()), (1, false), "{damaged:?}");
    let refused = runtime.block_on(ControlPlane::start(config(&kodiak))).err().unwrap();
    assert!(format!("{refused:#}").contains("kodiak store restore"), "{refused:#}");

    let refused = kodiak.run(&["store", "restore", "out.backup", "--path", &store]);
    assert!(refused.code == 1 && refused.err.contains("--force"), "{refused:?}");
    let restored = kodiak.run(&["store", "restore", "out.backup", "--path", &store, "--force"]);
    assert_eq!(restored.code, 0, "{restored:?}");
    let cp = runtime.block_on(ControlPlane::start(config(&kodiak))).unwrap();
    let url = format!("http://{}", cp.http.unwrap());
    let got = kodiak.run(&["--cp", &url, "get", "secret", "s", "-o", "json"]);
    assert!(got.out.contains("c2VjcmV0LXRleHQ="), "{got:?}");
    runtime.block_on(cp.stop()).unwrap();
}
