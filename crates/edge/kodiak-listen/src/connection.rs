//! One connection: its first byte, its TLS handshake, its requests.

use std::convert::Infallible;
use std::sync::Arc;

use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::Watcher;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use crate::activity::{Activity, Overdue};
use crate::body::Tracked;
use crate::limits::ConnectionLimits;
use crate::observer::Refused;
use crate::peer::Peer;
use crate::reads::Reads;
use crate::server::{Service, Stream};
use crate::table::{Table, Ticket};

/// The sender of a request.
#[derive(Debug, Clone)]
pub struct Client {
    pub peer: Peer,
    pub tls: bool,
    /// Cancelled by a service, it cuts the connection.
    pub cut: CancellationToken,
}

/// A connection that has a place, and the port it came to.
pub(crate) struct Connection<S> {
    pub(crate) peer: Peer,
    pub(crate) ticket: Ticket,
    pub(crate) table: Arc<Table>,
    pub(crate) limits: ConnectionLimits,
    pub(crate) acceptor: Option<TlsAcceptor>,
    pub(crate) service: S,
    pub(crate) drain: CancellationToken,
}

impl<S: Service> Connection<S> {
    pub(crate) async fn run(self, stream: Stream, watcher: Watcher) {
        let peer = self.peer;
        // The place in the table is given back after the reason is counted.
        match self.carry(stream, watcher).await {
            Ok(()) => (),
            Err(Overdue::Idle) => tracing::debug!(%peer, "connection closed: idle"),
            Err(Overdue::Refused(reason)) => {
                tracing::debug!(%peer, reason = reason.as_str(), "connection closed: over its limit");
                self.table.refused(reason);
            }
        }
    }

    async fn carry(&self, stream: Stream, watcher: Watcher) -> Result<(), Overdue> {
        tokio::select! {
            begun = tokio::time::timeout(self.limits.first_byte, stream.begins()) => {
                begun.map_err(|_| Overdue::Refused(Refused::FirstByte))?;
            }
            () = self.ticket.evicted.cancelled() => return Ok(()),
            // There is no request to finish.
            () = self.drain.cancelled() => return Ok(()),
        }
        match (stream, &self.acceptor) {
            (Stream::Tcp(stream), Some(acceptor)) => self.handshake(stream, acceptor, watcher).await,
            (Stream::Tcp(stream), None) => self.requests(stream, false, watcher).await,
            (Stream::Unix(stream), _) => self.requests(stream, false, watcher).await,
        }
    }

    async fn handshake(&self, stream: TcpStream, acceptor: &TlsAcceptor, watcher: Watcher) -> Result<(), Overdue> {
        let peer = self.peer;
        let accepted = tokio::select! {
            accepted = tokio::time::timeout(self.limits.handshake, acceptor.accept(stream)) => accepted,
            () = self.ticket.evicted.cancelled() => return Ok(()),
            () = self.drain.cancelled() => return Ok(()),
        };
        match accepted {
            Ok(Ok(stream)) => self.requests(stream, true, watcher).await,
            Ok(Err(error)) => {
                tracing::debug!(%peer, %error, "TLS handshake failed");
                Ok(())
            }
            Err(_) => Err(Overdue::Refused(Refused::Handshake)),
        }
    }

    async fn requests<IO>(&self, stream: IO, tls: bool, watcher: Watcher) -> Result<(), Overdue>
    where
        IO: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let Self { peer, ticket, table, limits, service, .. } = self;
        let (peer, limits) = (*peer, *limits);
        let activity = Activity::new(table.clone(), ticket.connection, limits);
        let client = Client { peer, tls, cut: CancellationToken::new() };
        let answer = service_fn(|request: hyper::Request<hyper::body::Incoming>| {
            let exchange = activity.begin(request.version());
            let (service, client) = (service.clone(), client.clone());
            async move {
                let response = service.call(request, client).await;
                Ok::<_, Infallible>(response.map(|body| Tracked::new(body, exchange)))
            }
        });
        let io = TokioIo::new(Reads { stream, activity: activity.clone() });
        let builder = protocols(&limits);
        let served = builder.serve_connection(io, answer);
        tokio::select! {
            ended = watcher.watch(served) => {
                if let Err(error) = ended {
                    tracing::debug!(%peer, error, "connection ended with an error");
                }
                Ok(())
            }
            overdue = activity.overdue() => Err(overdue),
            () = ticket.evicted.cancelled() => Ok(()),
            () = client.cut.cancelled() => Ok(()),
        }
    }
}

fn protocols(limits: &ConnectionLimits) -> auto::Builder<TokioExecutor> {
    let mut builder = auto::Builder::new(TokioExecutor::new());
    if limits.single_request {
        builder = builder.http1_only();
    }
    builder
        .http1()
        .timer(TokioTimer::new())
        // Ours tells heads from idle connections.
        .header_read_timeout(None)
        .keep_alive(!limits.single_request)
        .max_buf_size(usize::try_from(limits.header_bytes).unwrap_or(usize::MAX));
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_header_list_size(limits.header_bytes)
        .max_concurrent_streams(limits.streams)
        .max_pending_accept_reset_streams(limits.pending_resets)
        .max_local_error_reset_streams(limits.error_resets)
        .initial_stream_window_size(limits.stream_window)
        .initial_connection_window_size(limits.connection_window)
        .max_send_buf_size(limits.send_buffer)
        .keep_alive_interval(limits.ping_every)
        .keep_alive_timeout(limits.ping_answer);
    builder
}
