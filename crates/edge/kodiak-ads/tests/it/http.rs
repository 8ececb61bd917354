//! Requests that are no streams, and connections that are nothing.

use std::time::Duration;

use kodiak_ads::Limits;
use kodiak_xds_stream::TypeUrl;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::bed::{Bed, PATIENCE};
use crate::client::{DELTA, Delta, connect};

/// Sends this over HTTP/1.1, and gives all that comes back.
async fn exchange(bed: &Bed, request: &[u8]) -> String {
    let mut stream = connect(bed, "http/1.1").await;
    // A server that answers before it has read everything may close.
    let _ = stream.write_all(request).await;
    let mut answer = Vec::new();
    let read = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut answer));
    let _ = read.await.expect("the server answers and closes");
    String::from_utf8(answer).unwrap()
}

pub(crate) async fn get(bed: &Bed, path: &str) -> String {
    exchange(bed, format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").as_bytes()).await
}

fn post(path: &str, content_type: &str, length: usize) -> Vec<u8> {
    let head = format!("POST {path} HTTP/1.1\r\nhost: x\r\ncontent-type: {content_type}\r\n");
    let mut request = format!("{head}content-length: {length}\r\nconnection: close\r\n\r\n").into_bytes();
    request.resize(request.len() + length, b'x');
    request
}

#[tokio::test]
async fn other_requests_are_answered_by_the_control_plane() {
    let bed = Bed::start().await;
    let answer = exchange(&bed, &post("/bootstrap", "application/json", 3)).await;
    assert!(
        answer.starts_with("HTTP/1.1 418 ") && answer.ends_with("\r\n\r\nPOST /bootstrap with 3 bytes"),
        "{answer}"
    );
    let answer = get(&bed, "/").await;
    assert!(answer.ends_with("GET / with 0 bytes"), "{answer}");
    let answer = exchange(&bed, &post(DELTA, "application/grpc-web", 0)).await;
    assert!(answer.starts_with("HTTP/1.1 418 "), "{answer}");
}

#[tokio::test]
async fn bodies_are_bounded() {
    let bed = Bed::start().await;
    let most = Limits::default().http_body;
    let answer = exchange(&bed, &post("/bootstrap", "application/json", most)).await;
    assert!(answer.ends_with(&format!("with {most} bytes")), "{answer}");
    let answer = exchange(&bed, &post("/bootstrap", "application/json", most + 1)).await;
    assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");
}

#[tokio::test]
async fn a_body_that_does_not_come_is_not_waited_for() {
    let bed = Bed::start_with(Limits { http_body_time: Duration::from_millis(50), ..Limits::default() }).await;
    let mut request = post("/bootstrap", "application/json", 3);
    request.pop();
    let answer = exchange(&bed, &request).await;
    assert!(answer.starts_with("HTTP/1.1 408 "), "{answer}");
}

#[tokio::test]
async fn streams_need_http_2() {
    let bed = Bed::start().await;
    let answer = exchange(&bed, &post(DELTA, "application/grpc", 0)).await;
    assert!(answer.contains("grpc-status: 12\r\n") && answer.contains("HTTP/2"), "{answer}");
}

#[tokio::test]
async fn connections_that_say_nothing_are_closed() {
    let short = Duration::from_millis(50);
    let bed = Bed::start_with(Limits { handshake: short, request_head: short, ..Limits::default() }).await;
    let mut no_handshake = TcpStream::connect(bed.address).await.unwrap();
    let mut end = Vec::new();
    tokio::time::timeout(PATIENCE, no_handshake.read_to_end(&mut end)).await.expect("the server closes").unwrap();
    for protocol in ["h2", "http/1.1"] {
        let mut no_request = connect(&bed, protocol).await;
        let closed = tokio::time::timeout(PATIENCE, no_request.read_to_end(&mut end)).await;
        assert!(closed.is_ok(), "{protocol}");
    }
}

#[tokio::test]
async fn streams_that_say_nothing_are_ended() {
    let bed = Bed::start_with(Limits { hello: Duration::from_millis(50), ..Limits::default() }).await;
    let end = Delta::open(&bed, DELTA, &[]).await.end().await;
    assert!(end.message.contains("in time"), "{end:?}");
}

#[tokio::test]
async fn no_more_connections_are_served_than_there_may_be() {
    let bed = Bed::start_with(Limits { connections: 1, ..Limits::default() }).await;
    let first = Delta::ask(&bed, TypeUrl::Cluster, &[]).await;
    bed.wait_for("it has connected", |seen| seen.hellos.len() == 1).await;
    let leaves = async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        drop(first);
    };
    let (second, ()) = tokio::join!(Delta::ask(&bed, TypeUrl::Cluster, &[]), leaves);
    let seen = bed.wait_for("it has connected", |seen| seen.hellos.len() == 2).await;
    assert_eq!(seen.most_at_once, 1);
    drop(second);
}
