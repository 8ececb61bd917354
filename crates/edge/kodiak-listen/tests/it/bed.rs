//! A port that answers every request with `OK`, or never.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use kodiak_listen::{Client, ConnectionLimits, ConnectionObserver, Listener, Refused, Server, Service};
use rustls::ServerConfig;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// Far more than anything takes, for machines that do much else.
pub(crate) const PATIENCE: Duration = Duration::from_mins(1);
/// What a test waits for.
pub(crate) const SHORT: Duration = Duration::from_millis(50);

pub(crate) struct Bed {
    pub(crate) address: SocketAddr,
    pub(crate) seen: Arc<Seen>,
    pub(crate) drain: CancellationToken,
    pub(crate) server: JoinHandle<()>,
}

/// What was observed.
#[derive(Default)]
pub(crate) struct Seen {
    open: watch::Sender<i64>,
    refused: Mutex<Vec<Refused>>,
}

impl ConnectionObserver for Seen {
    fn opened(&self) {
        self.open.send_modify(|open| *open += 1);
    }

    fn closed(&self) {
        self.open.send_modify(|open| *open -= 1);
    }

    fn refused(&self, reason: Refused) {
        self.refused.lock().unwrap().push(reason);
    }
}

impl Seen {
    pub(crate) fn refused(&self) -> Vec<Refused> {
        self.refused.lock().unwrap().clone()
    }

    /// Waits until so many connections are open.
    pub(crate) async fn until_open(&self, count: i64) {
        let mut open = self.open.subscribe();
        let reached = tokio::time::timeout(PATIENCE, open.wait_for(|open| *open == count)).await;
        reached.unwrap_or_else(|_| panic!("{} are open, not {count}", *self.open.borrow())).unwrap();
    }
}

/// Answers `/never` never.
#[derive(Clone)]
pub(crate) struct Answers;

impl Service for Answers {
    type Body = Full<Bytes>;

    async fn call(&self, request: Request<Incoming>, _: Client) -> Response<Full<Bytes>> {
        if request.uri().path() == "/never" {
            std::future::pending::<()>().await;
        }
        Response::new(Full::from("OK"))
    }
}

impl Bed {
    pub(crate) async fn start(limits: ConnectionLimits, tls: Option<Arc<ServerConfig>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (seen, drain) = (Arc::new(Seen::default()), CancellationToken::new());
        let server = Server {
            name: "test",
            listener: Listener::Tcp(listener),
            tls,
            limits,
            observer: Some(seen.clone()),
            drain: drain.clone(),
            grace: PATIENCE,
        };
        let server = tokio::spawn(server.serve(Answers));
        Self { address, seen, drain, server }
    }

    pub(crate) async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }
}

/// Sends a request and reads its answer; the connection stays open.
pub(crate) async fn exchange(stream: &mut TcpStream) -> String {
    stream.write_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    let mut answer = Vec::new();
    while !answer.ends_with(b"\r\n\r\nOK") {
        let mut piece = [0; 1024];
        let read = tokio::time::timeout(PATIENCE, stream.read(&mut piece)).await.expect("the port answers").unwrap();
        assert!(read > 0, "closed after {:?}", String::from_utf8_lossy(&answer));
        answer.extend_from_slice(&piece[..read]);
    }
    String::from_utf8(answer).unwrap()
}

/// Waits until the port closes the connection.
pub(crate) async fn closed(stream: &mut TcpStream) {
    let mut rest = Vec::new();
    // A connection that was closed with bytes unread ends with an error.
    let _ = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut rest)).await.expect("the port closes");
}
