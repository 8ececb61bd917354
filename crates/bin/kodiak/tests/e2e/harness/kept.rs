//! TCP connections that stay open while the mesh changes.

use std::net::SocketAddr;

use http_body_util::{BodyExt as _, Empty};
use hyper::{
    Request,
    body::Bytes,
    client::conn::http1::{self, SendRequest},
};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

/// To each address.
const CONNECTIONS: usize = 10;

/// Connections that are opened once. Between the proxies each is a TCP connection of its own.
pub(crate) struct Kept(Vec<(SocketAddr, SendRequest<Empty<Bytes>>)>);

impl Kept {
    pub(crate) async fn open(targets: impl IntoIterator<Item = SocketAddr>) -> Self {
        let mut connections = Vec::new();
        for target in targets {
            for _ in 0..CONNECTIONS {
                let stream = TcpStream::connect(target).await.unwrap();
                let (sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
                tokio::spawn(connection);
                connections.push((target, sender));
            }
        }
        let mut kept = Self(connections);
        kept.check("they were opened").await;
        kept
    }

    /// Every connection is open and answers. None is opened again.
    pub(crate) async fn check(&mut self, after: &str) {
        let count = self.0.len();
        let mut closed = Vec::new();
        for (target, sender) in &mut self.0 {
            if let Err(error) = answer(*target, sender).await {
                closed.push(error);
            }
        }
        assert!(closed.is_empty(), "{} of {count} connections closed after {after}: {}", closed.len(), closed[0]);
    }
}

async fn answer(target: SocketAddr, sender: &mut SendRequest<Empty<Bytes>>) -> Result<(), String> {
    let request = Request::get("/").header("host", target.to_string()).body(Empty::new()).unwrap();
    let exchange = async {
        sender.ready().await.map_err(|error| error.to_string())?;
        let response = sender.send_request(request).await.map_err(|error| error.to_string())?;
        let status = response.status();
        response.into_body().collect().await.map_err(|error| error.to_string())?;
        super::expect(status.is_success(), status)
    };
    tokio::time::timeout(super::PATIENCE, exchange).await.unwrap_or_else(|_| Err("no answer".to_owned()))
}
