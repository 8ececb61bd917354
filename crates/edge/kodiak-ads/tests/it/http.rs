//! Plain HTTP requests, and connections that send nothing.

use std::time::Duration;

use kodiak_ads::Limits;
use kodiak_envoy::envoy::config::core::v3::Node;
use kodiak_envoy::envoy::service::discovery::v3::DeltaDiscoveryRequest;
use kodiak_listen::ConnectionLimits;
use kodiak_xds_stream::TypeUrl;
use prost::Message as _;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::bed::{Bed, PATIENCE};
use crate::client::{DELTA, Delta, connect, subscribe};

/// Sends this over HTTP/1.1, and returns the whole response.
async fn exchange(bed: &Bed, request: &[u8]) -> String {
    let mut stream = connect(bed, "http/1.1").await;
    // A server that answers before it has read everything may close the connection.
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
async fn missing_body_times_out() {
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
async fn silent_connections_are_closed() {
    let short = Duration::from_millis(50);
    let connections =
        ConnectionLimits { first_byte: short, handshake: short, request_head: short, ..ConnectionLimits::proxies() };
    let bed = Bed::limited(Limits::default(), connections).await;
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
async fn silent_streams_are_closed() {
    let bed = Bed::start_with(Limits { hello: Duration::from_millis(50), ..Limits::default() }).await;
    let end = Delta::open(&bed, DELTA, &[]).await.end().await;
    assert!(end.message.contains("in time"), "{end:?}");
}

#[tokio::test]
async fn connections_above_the_limit_are_refused() {
    let connections = ConnectionLimits { connections: 1, ..ConnectionLimits::proxies() };
    let bed = Bed::limited(Limits::default(), connections).await;
    let first = Delta::ask(&bed, TypeUrl::Cluster, &[]).await;
    bed.wait_for("it has connected", |seen| seen.hellos.len() == 1).await;
    // A stream is not evicted for a new connection, which is refused at once.
    let mut refused = TcpStream::connect(bed.address).await.unwrap();
    let closed = tokio::time::timeout(PATIENCE, refused.read_to_end(&mut Vec::new())).await;
    closed.expect("the server closes").unwrap();
    drop(first);
    bed.wait_for("it has left", |seen| seen.ended == 1).await;
    let second = Delta::ask_when_there_is_room(&bed, TypeUrl::Cluster).await;
    let seen = bed.wait_for("it has connected", |seen| seen.hellos.len() == 2).await;
    assert_eq!(seen.most_at_once, 1);
    drop(second);
}

#[tokio::test]
async fn long_first_messages_of_unadmitted_streams_share_a_budget() {
    const LONG: usize = 900 * 1024;
    let bed = Bed::start_with(Limits { unadmitted_bytes: 1024 * 1024, ..Limits::default() }).await;
    let hello = |name: &str, length: usize| {
        let node = Node { id: format!("default.{name}"), cluster: "x".repeat(length), ..Node::default() };
        DeltaDiscoveryRequest { node: Some(node), ..subscribe(TypeUrl::Cluster, &[]) }
    };
    let frame = |request: &DeltaDiscoveryRequest| {
        let content = request.encode_to_vec();
        let length = u32::try_from(content.len()).unwrap();
        [&[0][..], &length.to_be_bytes(), &content].concat()
    };
    let first = Delta::open(&bed, DELTA, &[]).await;
    let mut begin = frame(&hello("first", LONG));
    let rest = begin.split_off(LONG / 2);
    first.send_bytes(begin.into());
    // The first one has its reservation when its window opens again.
    first.taken().await;
    let second = Delta::open(&bed, DELTA, &[]).await;
    second.send(&hello("second", LONG));
    let third = Delta::open(&bed, DELTA, &[]).await;
    third.send(&hello("third", 10));
    bed.wait_for("a short hello is read", |seen| seen.hellos.len() == 1).await;
    for _ in 0..20 {
        get(&bed, "/gives/the/streams/time").await;
        assert_eq!(bed.seen().hellos.len(), 1, "the second waits for the first");
    }
    first.send_bytes(rest.into());
    let seen = bed.wait_for("all are read", |seen| seen.hellos.len() == 3).await;
    let ids: Vec<_> = seen.hellos.iter().map(|hello| hello.node.id.as_str()).collect();
    assert_eq!(ids, ["default.third", "default.first", "default.second"]);
}
