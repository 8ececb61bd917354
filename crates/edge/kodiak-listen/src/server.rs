//! Accepts connections until the drain.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use hyper::body::Incoming;
use hyper_util::server::graceful::GracefulShutdown;
use rustls::ServerConfig;
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use crate::connection::{Client, Connection};
use crate::limits::ConnectionLimits;
use crate::log::LogThrottle;
use crate::observer::{ConnectionObserver, Refused};
use crate::peer::{Peer, PeerKey};
use crate::table::Table;

/// Delay after an accept that failed for want of file descriptors: connections that close free some meanwhile.
const ACCEPT_PAUSE: Duration = Duration::from_millis(20);

/// Answers the requests of a port.
pub trait Service: Clone + Send + Sync + 'static {
    type Body: http_body::Body<Data = Bytes, Error: Into<Box<dyn std::error::Error + Send + Sync>>>
        + Send
        + Unpin
        + 'static;

    fn call(&self, request: Request<Incoming>, client: Client) -> impl Future<Output = Response<Self::Body>> + Send;
}

#[derive(Debug)]
pub enum Listener {
    Tcp(TcpListener),
    /// Only processes of these users may connect.
    Unix {
        listener: UnixListener,
        uids: Vec<u32>,
    },
}

/// A port, with the settings of its connections.
pub struct Server {
    /// Name of the port in logs.
    pub name: &'static str,
    pub listener: Listener,
    pub tls: Option<Arc<ServerConfig>>,
    pub limits: ConnectionLimits,
    pub observer: Option<Arc<dyn ConnectionObserver>>,
    pub drain: CancellationToken,
    /// Time for requests to finish after `drain`.
    pub grace: Duration,
}

pub(crate) enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Server {
    /// Serves until `drain`, then lets requests finish within `grace`.
    pub async fn serve(self, service: impl Service) {
        let Self { name, listener, tls, limits, observer, drain, grace } = self;
        let graceful = GracefulShutdown::new();
        let acceptor = tls.map(TlsAcceptor::from);
        let table = Table::new(limits, observer);
        let (refusals, failures) = (LogThrottle::new(), LogThrottle::new());
        let mut connections = JoinSet::new();
        loop {
            let accepted = tokio::select! {
                biased;
                () = drain.cancelled() => break,
                accepted = listener.accept() => accepted,
            };
            let (stream, peer) = match accepted {
                Ok(accepted) => accepted,
                Err(error) if is_client_error(&error) => continue,
                Err(error) => {
                    if let Some(suppressed) = failures.admit() {
                        tracing::warn!(
                            port = name,
                            %error,
                            suppressed,
                            "failed to accept a connection, closing the longest idle one"
                        );
                    }
                    table.make_room();
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            };
            let ticket = match listener.admits(peer).and_then(|()| table.admit(PeerKey::from(peer))) {
                Ok(ticket) => ticket,
                Err(reason) => {
                    table.refused(reason);
                    if let Some(suppressed) = refusals.admit() {
                        let reason = reason.as_str();
                        tracing::warn!(port = name, %peer, reason, suppressed, "connections refused: limit reached");
                    }
                    continue;
                }
            };
            let connection = Connection {
                peer,
                ticket,
                table: table.clone(),
                limits,
                acceptor: acceptor.clone(),
                service: service.clone(),
                drain: drain.clone(),
            };
            connections.spawn(connection.run(stream, graceful.watcher()));
            while connections.try_join_next().is_some() {}
        }
        drop(listener);
        if tokio::time::timeout(grace, graceful.shutdown()).await.is_err() {
            tracing::warn!(port = name, ?grace, "closing connections whose requests did not finish in time");
        }
        connections.shutdown().await;
    }
}

/// The client has closed the connection already; the next one is not affected.
fn is_client_error(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionReset, Interrupted};
    matches!(error.kind(), ConnectionAborted | ConnectionReset | Interrupted)
}

impl Listener {
    async fn accept(&self) -> io::Result<(Stream, Peer)> {
        match self {
            Self::Tcp(listener) => {
                let (stream, peer) = listener.accept().await?;
                let _ = stream.set_nodelay(true);
                Ok((Stream::Tcp(stream), Peer::Tcp(peer)))
            }
            Self::Unix { listener, .. } => {
                let (stream, _) = listener.accept().await?;
                let uid = stream.peer_cred()?.uid();
                Ok((Stream::Unix(stream), Peer::Unix { uid }))
            }
        }
    }

    fn admits(&self, peer: Peer) -> Result<(), Refused> {
        match (self, peer) {
            (Self::Unix { uids, .. }, Peer::Unix { uid }) if !uids.contains(&uid) => Err(Refused::User),
            _ => Ok(()),
        }
    }
}

impl Stream {
    /// Waits for the first byte, or the end of the connection. Readiness alone may be reported too early.
    pub(crate) async fn begins(&self) {
        match self {
            // The next read meets the same error.
            Self::Tcp(stream) => drop(stream.peek(&mut [0]).await),
            // The time for the head includes it: users of this machine need no limit of their own.
            Self::Unix(_) => (),
        }
    }
}
