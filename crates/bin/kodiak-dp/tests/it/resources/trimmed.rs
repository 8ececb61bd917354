//! Calls to virtual addresses that a proxy has no listener for.

use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
    sync::Arc,
};

use http_body_util::{BodyExt as _, Full};
use hyper::{Request, Response, body::Bytes, client::conn::http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use kodiak_envoy::json::from_json;
use kodiak_testkit::envoy::envoy;
use kodiak_xds::input::{OutsideTraffic, Passthrough};
use kodiak_xds::trimmed::{Client, REASON, REASON_HEADER};
use kodiak_xds::{names, passthrough};
use serde_json::json;

use super::inputs::{self, Certificates};
use super::{start, with};
use crate::running::{PATIENCE, Running};

const HOST: &str = "payments.mesh";

/// A proxy for which all loopback addresses are virtual ones. It listens where redirected connections arrive.
fn proxy() -> Option<(Running, String)> {
    let made = Certificates::make();
    let through = Passthrough {
        inbound_port: 0,
        outbound_port: 15001,
        ipv6: false,
        reuse_port: true,
        outside: OutsideTraffic::RefusedByMesh,
        inbound_ports: None,
        trimmed: Some(Client { name: "web-1".into(), ranges: ["127.0.0.0/8".parse().unwrap()].into() }),
        mesh: "default".into(),
        confs: Arc::default(),
        facts: Arc::default(),
    };
    let mut listeners = passthrough::listeners(&through);
    let any_port = json!({ "socketAddress": { "address": "127.0.0.1", "portValue": 0 } });
    for listener in &mut listeners {
        listener.address = Some(from_json(&any_port).unwrap());
    }
    let folder = tempfile::tempdir().unwrap();
    let mut bootstrap = inputs::bootstrap("127.0.0.1", folder.path(), &made);
    bootstrap.admin = inputs::any_admin();
    let clusters = passthrough::clusters(&through);
    let proxy = start(envoy()?, with(bootstrap.message(), listeners, clusters, &made));
    let at = proxy.listener(names::OUTBOUND_PASSTHROUGH_IPV4);
    Some((proxy, at))
}

/// Everything that the proxy sends to a client that sends this, until it closes the connection.
fn sent(to: &str, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(to).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(bytes).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("the proxy closes the connection");
    answer
}

async fn over_http2(to: &str, content_type: &str) -> Response<String> {
    let stream = tokio::net::TcpStream::connect(to).await.unwrap();
    let (mut sender, connection) = http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let request = Request::post(format!("http://{HOST}/shop.Payments/Pay")).header("content-type", content_type);
    let response = sender.send_request(request.body(Full::new(Bytes::from_static(b"body"))).unwrap()).await.unwrap();
    let (head, body) = response.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    Response::from_parts(head, String::from_utf8(body.to_vec()).unwrap())
}

/// The explanation of a call to this host at this address.
fn explains(text: &str, host: &str, at: &str) -> bool {
    text.contains(&format!("no outbound for {at} (host: {host})")) && text.contains(&format!("kodiak why web-1 {host}"))
}

#[test]
fn call_to_a_trimmed_destination_explains_itself() {
    let Some((proxy, at)) = proxy() else { return };
    let reason = format!("\r\n{REASON_HEADER}: {REASON}\r\n");
    for request in [
        format!("GET / HTTP/1.1\r\nHost: {HOST}:80\r\n\r\n"),
        format!("GET / HTTP/1.0\r\nHost: {HOST}\r\n\r\n"),
        format!("POST /pay HTTP/1.1\r\nHost: {HOST}\r\nContent-Length: 5\r\n\r\nmoney"),
        format!("GET / HTTP/1.1\r\nHost: {HOST}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"),
        format!("CONNECT {HOST}:80 HTTP/1.1\r\nHost: {HOST}:80\r\n\r\n"),
    ] {
        // The connection is not kept alive: the next one may find a listener.
        let answer = sent(&at, request.as_bytes());
        assert!(answer.contains(" 403 Forbidden\r\n") && answer.contains(&reason), "{request}: {answer}");
        assert!(explains(&answer, HOST, &at), "{request}: {answer}");
    }
    let requests = proxy.counter("http.outbound_trimmed.downstream_rq_total");
    assert_eq!(requests, 5);
}

#[tokio::test]
async fn http2_and_grpc_calls_to_a_trimmed_destination_explain_themselves() {
    let Some((_proxy, at)) = proxy() else { return };
    let answer = over_http2(&at, "application/json").await;
    assert_eq!((answer.status().as_u16(), &answer.headers()[REASON_HEADER]), (403, &REASON.parse().unwrap()));
    assert!(explains(answer.body(), HOST, &at), "{answer:?}");
    // Permission denied, as gRPC says it.
    let answer = over_http2(&at, "application/grpc").await;
    assert_eq!((answer.status().as_u16(), &answer.headers()[REASON_HEADER]), (200, &REASON.parse().unwrap()));
    assert_eq!(answer.headers()["grpc-status"], "7");
    assert!(explains(answer.headers()["grpc-message"].to_str().unwrap(), HOST, &at), "{answer:?}");
}

#[test]
fn tcp_connection_to_a_trimmed_destination_is_closed() {
    let Some((proxy, at)) = proxy() else { return };
    // A client that waits for the server to speak first, as that of MySQL.
    assert_eq!(sent(&at, b""), "");
    let tls_hello = b"\x16\x03\x01\x00\x05hello";
    for first_bytes in [&b"*1\r\n$4\r\nPING\r\n"[..], b"\x10\x0c\x00\x04MQTT", tls_hello, b"GET"] {
        let answer = sent(&at, first_bytes);
        assert!(explains(&answer, "-", &at), "{answer}");
    }
    assert_eq!(proxy.counter("http.outbound_trimmed.downstream_cx_total"), 5);
}
