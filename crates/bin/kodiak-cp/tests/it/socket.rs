//! Unix socket for local administration.

use std::{
    os::unix::fs::{FileTypeExt as _, PermissionsExt as _},
    path::Path,
};

use http_body_util::{BodyExt as _, Empty, Full};
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

async fn post(socket: &Path, path: &str, body: &'static str) -> String {
    let io = TokioIo::new(UnixStream::connect(socket).await.unwrap());
    let (mut sender, connection) = hyper::client::conn::http1::handshake(io).await.unwrap();
    let connection = tokio::spawn(connection);
    let request = Request::post(path).header("host", "localhost").header("content-type", "application/json");
    let request = request.body(Full::new(Bytes::from_static(body.as_bytes()))).unwrap();
    let body = sender.send_request(request).await.unwrap().into_body().collect().await.unwrap().to_bytes();
    connection.abort();
    String::from_utf8(body.to_vec()).unwrap()
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

/// A credential decides wherever it comes from; without one, the connection does.
#[tokio::test]
async fn credential_that_is_there_decides_on_every_address() {
    for (tokens, localhost_is_admin) in [(true, true), (true, false), (false, true)] {
        let cp = TestControlPlane::start_with(|config| {
            config.api_server.authn.localhost_is_admin = localhost_is_admin;
            config.api_server.authn.tokens.enabled = tokens;
        })
        .await;
        let socket = cp.control_plane.socket.clone().unwrap();
        let issued = post(&socket, "/tokens/user", r#"{"name":"john","groups":["team"],"validFor":"1h"}"#).await;
        let bearer = |token: &str| format!("Bearer {token}");
        let john = if tokens { Ok("john") } else { Err(StatusCode::UNAUTHORIZED) };
        let refused = Err(StatusCode::UNAUTHORIZED);
        let cases = [
            ("none", Vec::<String>::new(), None),
            ("of a user", vec![bearer(&issued)], Some(john)),
            ("with a broken signature", vec![bearer(&format!("{issued}x"))], Some(refused)),
            ("nonsense", vec![bearer("nonsense")], Some(refused)),
            ("empty", vec![String::new()], Some(refused)),
            ("of another scheme", vec!["Basic am9objpzZWNyZXQ=".to_owned()], Some(refused)),
            ("twice", vec![bearer(&issued), bearer(&issued)], Some(refused)),
            ("of a user after another one", vec![bearer("nonsense"), bearer(&issued)], Some(refused)),
        ];
        for (name, values, expected) in cases {
            let remote = ("x-real-ip", "192.0.2.1");
            for (address, by_socket, more) in
                [("socket", true, None), ("loopback", false, None), ("elsewhere", false, Some(remote))]
            {
                let headers = values.iter().map(|value| ("authorization", value.as_str())).chain(more);
                let headers: Vec<(&str, &str)> = headers.collect();
                let found = if by_socket {
                    get(&socket, "/who-am-i", &headers).await
                } else {
                    let answer = cp.send(hyper::Method::GET, "/who-am-i", &headers, String::new()).await;
                    (answer.status, serde_json::from_str(&answer.text).unwrap_or_default())
                };
                let found = match found {
                    (StatusCode::OK, user) => Ok(user["name"].as_str().unwrap().to_owned()),
                    (status, _) => Err(status),
                };
                let is_admin = by_socket || (address == "loopback" && localhost_is_admin);
                let by_address = if is_admin { "mesh-system:admin" } else { "mesh-system:anonymous" };
                let expected = expected.unwrap_or(Ok(by_address)).map(str::to_owned);
                assert_eq!(found, expected, "credential {name}, from {address}, tokens: {tokens}");
            }
        }
    }
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
