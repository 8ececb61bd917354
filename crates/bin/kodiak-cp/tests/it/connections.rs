//! Idle and slow connections, and thousands of them, do not affect other clients.

use std::{net::SocketAddr, time::Duration};

use hyper::StatusCode;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use crate::harness::{TestControlPlane, get};

/// Generous, for machines under load.
const PATIENCE: Duration = Duration::from_mins(1);
/// More than the limit of each of these ports.
const SILENT: usize = 6000;

/// Raises the open files limit of this process for so many connections to itself, or to the hard limit.
fn connections_allowed(wanted: usize) -> usize {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).unwrap();
    // Both ends are in this process, and other tests run at the same time.
    let allowed = maximum.map_or(usize::MAX, |files| usize::try_from(files).unwrap() / 3);
    wanted.min(allowed)
}

/// Opens connections that send nothing.
async fn silent(address: SocketAddr, count: usize) -> Vec<TcpStream> {
    let mut open = Vec::with_capacity(count);
    for _ in 0..count {
        open.push(TcpStream::connect(address).await.unwrap());
    }
    open
}

async fn status(address: SocketAddr, path: &str) -> StatusCode {
    let answer = tokio::time::timeout(PATIENCE, get(address, path)).await;
    answer.unwrap_or_else(|_| panic!("{address} does not answer {path}")).status
}

#[tokio::test(flavor = "multi_thread")]
async fn thousands_of_idle_connections_do_not_block_clients() {
    let cp = TestControlPlane::start().await;
    let (diagnostics, health) = (cp.control_plane.diagnostics, cp.control_plane.health);
    let count = connections_allowed(SILENT);
    for (address, path) in [(diagnostics, "/healthy"), (cp.http(), "/meshes/default"), (health, "/healthy")] {
        let open = silent(address, count).await;
        assert_eq!(status(address, path).await, StatusCode::OK, "{path}");
        assert_eq!(status(health, "/healthy").await, StatusCode::OK);
        drop(open);
    }
    let metrics = get(diagnostics, "/metrics").await.text;
    for listener in ["diagnostics", "api-http", "health"] {
        let label = format!("kodiak_connections_refused_total{{listener=\"{listener}\",reason=\"evicted\"}} ");
        let evicted = metrics.lines().find_map(|line| line.strip_prefix(&label)?.parse::<usize>().ok());
        assert!(evicted.is_some_and(|evicted| evicted > 0), "{label}: {evicted:?}");
    }
    assert!(metrics.contains("kodiak_connections{listener=\"proxies\"} 0"), "{metrics}");
}

#[tokio::test]
async fn health_port_serves_health_only() {
    let cp = TestControlPlane::start().await;
    let health = cp.control_plane.health;
    for (path, expected) in [
        ("/healthy", StatusCode::OK),
        ("/ready", StatusCode::OK),
        ("/metrics", StatusCode::NOT_FOUND),
        ("/meshes", StatusCode::NOT_FOUND),
        ("/", StatusCode::NOT_FOUND),
    ] {
        assert_eq!(status(health, path).await, expected, "{path}");
    }
}

/// With default limits, an incomplete request ends after some seconds.
#[tokio::test]
async fn every_port_closes_incomplete_requests() {
    let cp = TestControlPlane::start().await;
    let ports = &cp.control_plane;
    let half_a_head: &[u8] = b"GET / HTTP/1.1\r\nhost: loc";
    let half_a_record: &[u8] = &[22, 3, 1, 2, 0, 1];
    let begun = [
        ("diagnostics", ports.diagnostics, half_a_head),
        ("health", ports.health, half_a_head),
        ("http", cp.http(), half_a_head),
        ("https", ports.https.unwrap(), half_a_record),
        ("proxies", ports.proxies, half_a_record),
        ("silent", cp.http(), &[]),
        ("silent proxy", ports.proxies, &[]),
    ];
    let ended = begun.map(|(port, address, bytes)| async move {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(bytes).await.unwrap();
        let mut rest = Vec::new();
        let closed = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut rest)).await;
        assert!(closed.is_ok(), "{port} waits for ever");
    });
    futures_util::future::join_all(ended).await;
}
