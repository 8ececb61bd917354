//! Lines through a pipe to servers that come and go.

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::net::SocketAddr;

use serde_json::json;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines};
use tokio::net::{TcpListener, TcpStream};

use super::sink::MAX_BUFFER;
use super::*;

struct Pipe {
    file: File,
    counts: AccessLogCounts,
    _tasks: JoinSet<()>,
    _folder: TempDir,
}

fn pipe() -> Pipe {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("kuma-al.sock");
    let logs = AccessLogs::open(&path).unwrap();
    let counts = logs.counts();
    let mut tasks = JoinSet::new();
    tasks.spawn(logs.forward());
    Pipe { file: OpenOptions::new().write(true).open(path).unwrap(), counts, _tasks: tasks, _folder: folder }
}

impl Pipe {
    /// Writes a line as Envoy does. Blocks while the pipe is full, so the caller must not block its reader.
    async fn log(&mut self, address: SocketAddr, message: &str) {
        let line = json!({ "address": address.to_string(), "message": message }).to_string() + "\n";
        let mut file = self.file.try_clone().unwrap();
        tokio::task::spawn_blocking(move || file.write_all(line.as_bytes())).await.unwrap().unwrap();
    }

    async fn until(&self, what: impl Fn(&BackendStatus) -> bool) {
        while !self.counts.status().backends.iter().any(&what) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

#[tokio::test]
async fn lines_about_callers_without_mtls_are_counted_and_not_forwarded() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("kuma-al.sock");
    let logs = AccessLogs::open(&path).unwrap();
    let (counts, callers) = (logs.counts(), logs.plaintext_callers());
    let mut tasks = JoinSet::new();
    tasks.spawn(logs.forward());
    let mut file = OpenOptions::new().write(true).open(path).unwrap();
    for message in ["10.0.0.1 80", "nonsense", "10.0.0.1 80"] {
        let line = json!({ "address": plaintext_callers::ADDRESS, "message": message }).to_string() + "\n";
        file.write_all(line.as_bytes()).unwrap();
    }
    let (sender, mut reports) = tokio::sync::mpsc::unbounded_channel();
    tasks.spawn(callers.report(async move |report| {
        sender.send(report.clone()).unwrap();
        plaintext_callers::Sent::Answered
    }));
    let report = serde_json::to_value(reports.recv().await.unwrap()).unwrap();
    let caller = json!({ "port": 80, "address": "10.0.0.1", "requests": 2 });
    assert_eq!(report, json!({ "callers": [caller], "dropped": 0 }));
    let status = counts.status();
    assert_eq!((status.backends.len(), status.invalid_lines), (0, 1));
}

async fn listen(at: &str) -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind(at).await.unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

async fn accept(listener: &TcpListener) -> Lines<BufReader<TcpStream>> {
    BufReader::new(listener.accept().await.unwrap().0).lines()
}

#[tokio::test]
async fn lines_are_forwarded_to_their_addresses() {
    let ((one, first), (other, second)) = (listen("127.0.0.1:0").await, listen("127.0.0.1:0").await);
    let mut pipe = pipe();
    // Longer than what a pipe writes at once.
    let long = "x".repeat(300_000);
    for message in ["a", &long, "b"] {
        pipe.log(first, message).await;
    }
    pipe.log(second, "c\n").await;
    let (mut one, mut other) = (accept(&one).await, accept(&other).await);
    for expected in ["a", &long, "b"] {
        assert_eq!(one.next_line().await.unwrap().unwrap(), expected);
    }
    assert_eq!(other.next_line().await.unwrap().unwrap(), "c");
    pipe.until(|sink| sink.address == first.to_string() && sink.forwarded_lines == 3).await;
    pipe.counts.drained(Duration::from_secs(5)).await;
    assert!(pipe.counts.status().backends.iter().all(|sink| sink.connected && sink.dropped_lines == 0));
}

#[tokio::test]
async fn lines_wait_for_a_server_that_restarts_and_are_counted_when_they_do_not_fit() {
    let (listener, address) = listen("127.0.0.1:0").await;
    let mut pipe = pipe();
    pipe.log(address, "first").await;
    let mut lines = accept(&listener).await;
    assert_eq!(lines.next_line().await.unwrap().unwrap(), "first");
    drop((listener, lines));
    pipe.until(|sink| !sink.connected).await;

    let message = "y".repeat(100_000);
    let fit = MAX_BUFFER / (message.len() + 1);
    for _ in 0..fit + 3 {
        pipe.log(address, &message).await;
    }
    pipe.until(|sink| sink.dropped_lines == 3).await;
    let (listener, _) = listen(&address.to_string()).await;
    let mut lines = accept(&listener).await;
    for _ in 0..fit {
        assert_eq!(lines.next_line().await.unwrap().unwrap(), message);
    }
    pipe.log(address, "last").await;
    assert_eq!(lines.next_line().await.unwrap().unwrap(), "last");
    pipe.until(|sink| sink.forwarded_lines == fit as u64 + 2).await;
}
