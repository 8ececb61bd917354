//! Limits of requests, and errors of invalid ones.

use hyper::{Method, StatusCode};
use serde_json::json;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use crate::harness::TestControlPlane;

#[tokio::test]
async fn wrong_paths_methods_and_media_types_are_answered_in_plain_text() {
    let cp = TestControlPlane::start().await;
    let unknown = cp.get("/nowhere").await;
    assert_eq!((unknown.status, unknown.text.as_str()), (StatusCode::NOT_FOUND, "404: Page Not Found"));
    let method = cp.send(Method::POST, "/meshes/default", &[], String::new()).await;
    assert_eq!(method.status, StatusCode::METHOD_NOT_ALLOWED);
    let media = cp.send(Method::PUT, "/meshes/x", &[("content-type", "text/plain")], "{}".to_owned()).await;
    assert_eq!(media.status, StatusCode::UNSUPPORTED_MEDIA_TYPE);
}

#[tokio::test]
async fn read_only_kinds_cannot_be_written() {
    let cp = TestControlPlane::start().await;
    let body = json!({ "type": "DataplaneInsight", "mesh": "default", "name": "x" });
    let refused = cp.put("/meshes/default/dataplane-insights/x", &body).await;
    assert_eq!(
        (refused.status, &refused.json()["title"]),
        (StatusCode::METHOD_NOT_ALLOWED, &json!("Method not allowed"))
    );
    assert_eq!(cp.delete("/meshes/default/dataplane-insights/x").await.status, StatusCode::METHOD_NOT_ALLOWED);
}

#[tokio::test]
async fn read_only_api_rejects_every_write() {
    let cp = TestControlPlane::start_with(|config| config.api_server.read_only = true).await;
    let refused = cp.put("/meshes/x", &json!({ "type": "Mesh", "name": "x" })).await;
    assert_eq!(refused.status, StatusCode::METHOD_NOT_ALLOWED);
    assert_eq!(cp.get("/meshes/default").await.status, StatusCode::OK);
}

#[tokio::test]
async fn huge_and_deep_bodies_are_rejected() {
    let cp = TestControlPlane::start().await;
    let huge = format!("{{\"type\":\"Mesh\",\"name\":\"{}\"}}", "x".repeat(5 * 1024 * 1024));
    let refused = cp.send(Method::PUT, "/meshes/x", &[], huge).await;
    assert_eq!(refused.status, StatusCode::PAYLOAD_TOO_LARGE);
    let deep = format!("{}1{}", "[".repeat(10_000), "]".repeat(10_000));
    let refused = cp.send(Method::PUT, "/meshes/x", &[], deep).await;
    assert_eq!(refused.status, StatusCode::BAD_REQUEST);
    assert_eq!(cp.get("/meshes?size=1001").await.status, StatusCode::BAD_REQUEST);
    let filters = vec!["tag=a:b"; 40].join("&");
    assert_eq!(cp.get(&format!("/dataplanes?{filters}")).await.status, StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn cors_allows_configured_origins_only() {
    let cp = TestControlPlane::start_with(|config| {
        config.api_server.cors_allowed_domains = vec!["https://gui.example".to_owned(), "*".to_owned()];
    })
    .await;
    let mut stream = TcpStream::connect(cp.http()).await.unwrap();
    for (origin, allowed) in [("https://gui.example", true), ("https://evil.example", false), ("null", false)] {
        let request = format!("GET /meshes HTTP/1.1\r\nhost: {}\r\norigin: {origin}\r\n\r\n", cp.http());
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut buffer = vec![0; 64 * 1024];
        let read = stream.read(&mut buffer).await.unwrap();
        let head = String::from_utf8_lossy(&buffer[..read]).to_lowercase();
        assert_eq!(head.contains(&format!("access-control-allow-origin: {origin}")), allowed, "{head}");
        assert!(!head.contains("access-control-allow-origin: *"));
    }
}

#[tokio::test]
async fn open_request_finishes_before_shutdown() {
    let cp = TestControlPlane::start().await;
    let body = json!({ "type": "Mesh", "name": "late" }).to_string();
    let head = format!(
        "PUT /meshes/late HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\nexpect: 100-continue\r\ncontent-length: {}\r\n\r\n",
        cp.http(),
        body.len()
    );
    let mut stream = TcpStream::connect(cp.http()).await.unwrap();
    stream.write_all(head.as_bytes()).await.unwrap();
    // The server sends 100 Continue once it handles the request.
    let mut go_on = [0; 25];
    stream.read_exact(&mut go_on).await.unwrap();
    assert_eq!(&go_on, b"HTTP/1.1 100 Continue\r\n\r\n");
    let finish = async move {
        stream.write_all(body.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    };
    let stopping = cp.restart();
    let (answer, cp) = tokio::join!(finish, stopping);
    assert!(answer.starts_with("HTTP/1.1 201"), "{answer}");
    assert_eq!(cp.get("/meshes/late").await.status, StatusCode::OK);
}
