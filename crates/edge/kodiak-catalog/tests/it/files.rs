//! File data sources: below the configured folder, or not at all.

use kodiak_catalog::FileSources;
use serde_json::{Value, json};

use crate::bed::{Bed, ca, problems};

fn backend(cert: &str, key: &str) -> Value {
    json!({ "name": "ca-1", "type": "provided", "conf": { "cert": { "file": cert }, "key": { "file": key } } })
}

#[tokio::test]
async fn files_are_rejected_by_default_without_revealing_them() {
    let bed = Bed::new().await;
    let mut answers = Vec::new();
    for path in ["/etc/passwd", "/etc/there-is-no-such-file"] {
        for skip in [false, true] {
            let mtls = json!({ "skipValidation": skip, "backends": [backend(path, path)] });
            let refused = bed.put_mesh_document(json!({ "type": "Mesh", "name": "demo", "mtls": mtls })).await;
            answers.push(problems(refused));
        }
    }
    assert!(answers.iter().all(|answer| *answer == answers[0]), "{answers:?}");
    let message = "file data sources are disabled";
    assert!(answers[0][0].starts_with(&format!("mtls.backends[0].conf.cert.file: {message}")), "{answers:?}");
    assert!(answers[0][0].contains("general.dataSourceFolder"), "{answers:?}");
}

#[tokio::test]
async fn folder_applies_to_every_kind() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let pair = ca("own");
    std::fs::write(path("cert"), &pair.cert_pem).unwrap();
    std::fs::write(path("key"), pair.key_pem.expose()).unwrap();
    let bed = Bed::reading(FileSources::below(folder.path())).await;
    bed.put_mesh("ca-1", json!([backend(&path("cert"), &path("key"))])).await.unwrap();
    let source = |path: &str| json!({ "type": "File", "file": { "path": path } });
    let identity = |path: &str| {
        let ca = json!({ "certificate": source(path), "privateKey": source(path) });
        json!({ "spec": { "selector": {}, "provider": { "type": "Bundled", "bundled": { "ca": ca } } } })
    };
    let refused = problems(bed.put("MeshIdentity", "identity", identity("/etc/passwd")).await);
    let start = "spec.provider.bundled.ca.certificate.file.path: must be the absolute path of a file below";
    assert!(refused[0].starts_with(start), "{refused:?}");
    bed.put("MeshIdentity", "identity", identity(&path("key"))).await.unwrap();
    let certificates = json!([{ "file": "/etc/passwd" }]);
    let listener =
        json!({ "port": 1, "protocol": "HTTPS", "tls": { "mode": "TERMINATE", "certificates": certificates } });
    let selectors = json!([{ "match": { "kuma.io/service": "edge" } }]);
    let gateway = json!({ "selectors": selectors, "conf": { "listeners": [listener] } });
    let refused = problems(bed.put("MeshGateway", "edge", gateway).await);
    assert!(refused[0].starts_with("conf.listeners[0].tls.certificates[0].file: "), "{refused:?}");
}
