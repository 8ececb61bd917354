//! Unix socket for local administration.

use std::{
    os::unix::fs::{FileTypeExt as _, PermissionsExt as _},
    path::Path,
};

use http_body_util::{BodyExt as _, Empty};
use hyper::{Request, StatusCode, body::Bytes};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::UnixStream;

use crate::harness::TestControlPlane;

async fn get(socket: &Path, path: &str, headers: &[(&str, &str)]) -> (StatusCode, Value) {
    let io = TokioIo::new(UnixStream::connect(socket).await.unwrap());
    let (mut sender, connection) = hyper::client::conn::http1::handshake(io).await.unwrap();
    let connection = tokio::spawn(connection);
    let request = Request::get(path).header("host", "localhost");
    let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
    let response = sender.send_request(request.body(Empty::<Bytes>::new()).unwrap()).await.unwrap();
    let status = response.status();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    connection.abort();
    (status, serde_json::from_slice(&body).unwrap_or_default())
}

#[tokio::test]
async fn clients_of_the_socket_are_administrators() {
    let cp = TestControlPlane::start_with(|config| {
        config.api_server.authn.localhost_is_admin = false;
        config.api_server.base_path = "/mesh".to_owned();
    })
    .await;
    let socket = cp.control_plane.socket.clone().unwrap();
    assert_eq!(socket, cp.folder().join("kodiak.sock"));
    let file = std::fs::metadata(&socket).unwrap();
    assert!(file.file_type().is_socket() && file.permissions().mode() & 0o777 == 0o600, "{file:?}");
    // The port grants no administrator rights and has a base path; neither applies to the socket.
    assert_eq!(cp.get("/mesh/globalsecrets").await.status, StatusCode::FORBIDDEN);
    assert_eq!(get(&socket, "/globalsecrets", &[]).await.0, StatusCode::OK);
    let (_, me) = get(&socket, "/who-am-i", &[]).await;
    assert_eq!(me["name"], "mesh-system:admin", "{me}");
    // Also behind a reverse proxy.
    for header in [("x-forwarded-for", "192.0.2.1"), ("via", "1.1 proxy"), ("origin", "https://evil.example")] {
        assert_eq!(get(&socket, "/globalsecrets", &[header]).await.0, StatusCode::FORBIDDEN, "{header:?}");
    }
    cp.control_plane.stop().await.unwrap();
    assert!(!socket.exists(), "it is removed at the end");
}

#[tokio::test]
async fn second_control_plane_does_not_replace_the_socket_of_the_first() {
    let first = TestControlPlane::start().await;
    let socket = first.control_plane.socket.clone().unwrap();
    let path = socket.clone();
    let mut config = crate::harness::config(tempfile::tempdir().unwrap().path());
    config.api_server.socket.path = path.clone();
    let refused = kodiak_cp::ControlPlane::start(config).await.err().expect("the path was asked for");
    assert!(format!("{refused:#}").contains("in use"), "{refused:#}");
    assert_eq!(get(&socket, "/who-am-i", &[]).await.0, StatusCode::OK);
}
