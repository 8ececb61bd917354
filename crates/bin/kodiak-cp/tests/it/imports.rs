//! Imports from Kuma: virtual addresses that services keep, and paths of legacy kinds.

use std::collections::BTreeSet;
use std::time::Duration;

use hyper::{Method, StatusCode};
use serde_json::{Value, json};

use crate::harness::TestControlPlane;

fn service(name: &str, address: Option<&str>) -> Value {
    json!({
        "type": "MeshService", "mesh": "default", "name": name,
        "spec": { "selector": { "dataplaneTags": { "kuma.io/service": name } }, "ports": [{ "port": 80, "targetPort": 80 }] },
        "status": { "vips": address.map(|ip| vec![json!({ "ip": ip })]).unwrap_or_default() },
    })
}

#[tokio::test]
async fn legacy_kinds_are_answered_with_their_replacement() {
    let cp = TestControlPlane::start().await;
    for (method, path) in [
        (Method::GET, "/meshes/default/traffic-routes"),
        (Method::PUT, "/meshes/default/traffic-routes/all"),
        (Method::DELETE, "/meshes/default/traffic-routes/all"),
        (Method::GET, "/traffic-routes"),
    ] {
        let answer = cp.send(method.clone(), path, &[], String::new()).await;
        assert_eq!(answer.status, StatusCode::NOT_FOUND, "{method} {path}");
        let body = answer.json();
        assert_eq!(body["title"], "Kind not supported", "{body}");
        let detail = body["detail"].as_str().unwrap();
        assert!(
            detail.contains("use MeshHTTPRoute and MeshTCPRoute") && detail.contains("kodiak migrate kuma"),
            "{detail}"
        );
    }
    assert_eq!(cp.get("/meshes/default/nonsense").await.text, "404: Page Not Found");
}

#[tokio::test]
async fn only_administrators_import_addresses() {
    let cp = TestControlPlane::start().await;
    let user = json!({ "name": "dev", "groups": ["team-a"], "validFor": "1h" }).to_string();
    let token = cp.send(Method::POST, "/tokens/user", &[], user).await.text;
    let path = "/meshes/default/meshservices/web";
    let bearer = format!("Bearer {token}");
    let body = service("web", Some("241.0.0.9"));
    // From another machine: the control plane's own one is the administrator's.
    let headers = [("authorization", bearer.as_str()), ("x-real-ip", "192.0.2.1")];
    let denied = cp.send(Method::PUT, &format!("{path}?vip=keep"), &headers, body.to_string()).await;
    assert_eq!(denied.status, StatusCode::FORBIDDEN, "{}", denied.text);
    assert_eq!(cp.get(path).await.status, StatusCode::NOT_FOUND);
    // Without it, a status is ignored.
    let written = cp.send(Method::PUT, path, &headers, body.to_string()).await;
    assert_eq!(written.status, StatusCode::CREATED, "{}", written.text);
    assert_ne!(cp.get(path).await.json()["status"]["vips"][0]["ip"], "241.0.0.9");
    let nothing = cp.put(&format!("{path}?vip=keep"), &service("web", None)).await;
    assert_eq!(nothing.status, StatusCode::BAD_REQUEST, "{}", nothing.text);
}

/// Imports race with the reconciler, which allocates the same addresses from the start of the range.
#[tokio::test]
async fn imported_and_allocated_addresses_never_collide() {
    let cp = TestControlPlane::start().await;
    let count = 30;
    let import = async {
        for n in (0..count).rev() {
            let (path, address) = (format!("/meshes/default/meshservices/kept-{n}?vip=keep"), format!("241.0.0.{n}"));
            let answer = cp.put(&path, &service(&format!("kept-{n}"), Some(&address))).await;
            if !answer.status.is_success() {
                assert!(answer.text.contains("belongs to MeshService"), "{}", answer.text);
                cp.put(path.trim_end_matches("?vip=keep"), &service(&format!("kept-{n}"), None)).await;
            }
        }
    };
    let create = async {
        for n in 0..count {
            cp.put(&format!("/meshes/default/meshservices/new-{n}"), &service(&format!("new-{n}"), None)).await;
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::join!(import, create);
    for _ in 0..3000 {
        let list = cp.get("/meshes/default/meshservices?size=1000").await.json();
        let items = list["items"].as_array().unwrap();
        let addresses: Vec<&str> = items.iter().filter_map(|one| one["status"]["vips"][0]["ip"].as_str()).collect();
        let different: BTreeSet<&str> = addresses.iter().copied().collect();
        assert_eq!(addresses.len(), different.len(), "an address has two owners: {addresses:?}");
        if addresses.len() == 2 * count {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("not all services have an address");
}
