//! Nothing that was answered is lost.

use hyper::StatusCode;
use serde_json::json;

use crate::harness::TestControlPlane;

#[tokio::test]
async fn everything_is_there_after_a_restart() {
    let cp = TestControlPlane::start().await;
    for n in 0..50 {
        let name = format!("m{n}");
        let mesh = json!({ "type": "Mesh", "name": name, "skipCreatingInitialPolicies": ["*"] });
        if n < 3 {
            assert_eq!(cp.put(&format!("/meshes/{name}"), &mesh).await.status, StatusCode::CREATED);
        }
        let timeout = json!({
            "type": "MeshTimeout", "mesh": "default", "name": name,
            "spec": { "rules": [{ "default": { "idleTimeout": format!("{}s", n + 1) } }] },
        });
        assert_eq!(cp.put(&format!("/meshes/default/meshtimeouts/{name}"), &timeout).await.status, StatusCode::CREATED);
    }
    let meshes = cp.get("/meshes").await.text;
    let timeouts = cp.get("/meshtimeouts").await.text;
    let old = cp.http().to_string();
    let cp = cp.restart().await;
    let new = cp.http().to_string();
    assert_eq!(cp.get("/meshes").await.text.replace(&new, &old), meshes);
    assert_eq!(cp.get("/meshtimeouts").await.text.replace(&new, &old), timeouts);
}

#[tokio::test]
async fn secrets_are_not_readable_in_the_file() {
    let cp = TestControlPlane::start().await;
    let secret = "c2VjcmV0LXRleHQtdGhhdC1pcy1ub3QtaW4tdGhlLWZpbGU=";
    let body = json!({ "type": "Secret", "mesh": "default", "name": "s", "data": secret });
    assert_eq!(cp.put("/meshes/default/secrets/s", &body).await.status, StatusCode::CREATED);
    let bytes = std::fs::read(cp.folder().join("kodiak.redb")).unwrap();
    let holds = |needle: &[u8]| bytes.windows(needle.len()).any(|window| window == needle);
    assert!(!holds(secret.as_bytes()));
    assert!(!holds(b"PRIVATE KEY"));
    let cp = cp.restart().await;
    assert_eq!(cp.get("/meshes/default/secrets/s").await.json()["data"], secret);
}

#[tokio::test]
async fn a_store_that_is_in_use_is_refused_with_its_name() {
    let cp = TestControlPlane::start().await;
    let error = kodiak_cp::ControlPlane::start(crate::harness::config(cp.folder())).await.err().unwrap();
    assert!(format!("{error:#}").contains("kodiak.redb is in use by another process"), "{error:#}");
}
