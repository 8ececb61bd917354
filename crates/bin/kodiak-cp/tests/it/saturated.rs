//! A control plane whose threads are all busy.

use std::{
    io::{ErrorKind, Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    sync::mpsc,
};

use crate::harness::TestControlPlane;

fn asked(address: SocketAddr, path: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").unwrap();
    stream
}

fn answer(mut stream: TcpStream) -> String {
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

/// The runtime that serves all other ports has one thread here, and that thread does not come back.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn health_and_metrics_are_answered_while_the_serving_threads_are_busy() {
    let cp = TestControlPlane::start().await;
    let (busy, is_busy) = mpsc::channel();
    let (release, released) = mpsc::channel::<()>();
    let blocked = tokio::spawn(async move {
        busy.send(()).unwrap();
        // Blocks the thread, not the task.
        let _ = released.recv();
    });
    is_busy.recv().unwrap();
    let api = asked(cp.http(), "/");

    let (health, diagnostics) = (cp.control_plane.health, cp.control_plane.diagnostics);
    for (address, path) in [(health, "/healthy"), (diagnostics, "/healthy"), (diagnostics, "/metrics")] {
        let answered = answer(asked(address, path));
        assert!(answered.starts_with("HTTP/1.1 200"), "{path}: {answered}");
    }
    // Ready or not, there is an answer.
    let readiness = answer(asked(health, "/ready"));
    assert!(readiness.starts_with("HTTP/1.1 200") || readiness.starts_with("HTTP/1.1 503"), "{readiness}");

    api.set_nonblocking(true).unwrap();
    let unanswered = (&api).read(&mut [0; 1]).unwrap_err();
    assert_eq!(unanswered.kind(), ErrorKind::WouldBlock, "the other ports are indeed not served");
    api.set_nonblocking(false).unwrap();
    release.send(()).unwrap();
    blocked.await.unwrap();
    assert!(answer(api).starts_with("HTTP/1.1 200"));
}
