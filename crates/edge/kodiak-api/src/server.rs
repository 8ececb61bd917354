//! Listening: HTTP and HTTPS, with bounds on what a connection may take, and an end that lets requests finish.

use std::{convert::Infallible, net::SocketAddr, sync::Arc, time::Duration};

use axum::{Router, body::Body, extract::Request, response::Response};
use hyper::body::Incoming;
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::{conn::auto, graceful::GracefulShutdown},
    service::TowerToHyperService,
};
use rustls::ServerConfig;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
    sync::Semaphore,
    task::JoinSet,
};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

use crate::Connection;

const HEADER_TIME: Duration = Duration::from_secs(10);
const HANDSHAKE_TIME: Duration = Duration::from_secs(10);
const MAX_CONNECTIONS: usize = 4096;
const MAX_HEADER_BYTES: usize = 64 * 1024;
/// After a failed accept, mostly for want of file descriptors: waiting lets some be given back.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Serves until `drain`, then lets open requests finish within `grace`.
pub async fn serve(
    listener: TcpListener,
    tls: Option<Arc<ServerConfig>>,
    router: Router,
    drain: CancellationToken,
    grace: Duration,
) {
    let graceful = GracefulShutdown::new();
    let slots = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let acceptor = tls.map(TlsAcceptor::from);
    let mut connections = JoinSet::new();
    loop {
        let slot = tokio::select! {
            biased;
            () = drain.cancelled() => break,
            slot = slots.clone().acquire_owned() => slot.expect("the semaphore is never closed"),
        };
        let (stream, peer) = tokio::select! {
            biased;
            () = drain.cancelled() => break,
            accepted = listener.accept() => match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    tracing::warn!(%error, "Cannot accept a connection.");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            },
        };
        let (acceptor, router, watcher) = (acceptor.clone(), router.clone(), graceful.watcher());
        connections.spawn(async move {
            let _slot = slot;
            connection(stream, peer, acceptor, router, watcher).await;
        });
        while connections.try_join_next().is_some() {}
    }
    drop(listener);
    if tokio::time::timeout(grace, graceful.shutdown()).await.is_err() {
        tracing::warn!("Closing connections whose requests did not end in time.");
    }
    connections.shutdown().await;
}

async fn connection(
    stream: TcpStream,
    peer: SocketAddr,
    acceptor: Option<TlsAcceptor>,
    router: Router,
    watcher: hyper_util::server::graceful::Watcher,
) {
    let _ = stream.set_nodelay(true);
    match acceptor {
        None => requests(stream, Connection { peer, tls: false }, router, watcher).await,
        Some(acceptor) => match tokio::time::timeout(HANDSHAKE_TIME, acceptor.accept(stream)).await {
            Ok(Ok(stream)) => requests(stream, Connection { peer, tls: true }, router, watcher).await,
            Ok(Err(error)) => tracing::debug!(%peer, %error, "A TLS handshake failed."),
            Err(_) => tracing::debug!(%peer, "A TLS handshake took too long."),
        },
    }
}

async fn requests<S>(stream: S, connection: Connection, router: Router, watcher: hyper_util::server::graceful::Watcher)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let service = tower::service_fn(move |request: hyper::Request<Incoming>| {
        let router = router.clone();
        async move {
            let mut request: Request = request.map(Body::new);
            request.extensions_mut().insert(connection);
            let response: Result<Response, Infallible> = router.oneshot(request).await;
            response
        }
    });
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(HEADER_TIME).max_buf_size(MAX_HEADER_BYTES);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_header_list_size(u32::try_from(MAX_HEADER_BYTES).unwrap_or(u32::MAX))
        .max_concurrent_streams(128);
    let served = builder.serve_connection_with_upgrades(TokioIo::new(stream), TowerToHyperService::new(service));
    if let Err(error) = watcher.watch(served.into_owned()).await {
        tracing::debug!(peer = %connection.peer, %error, "A connection ended with an error.");
    }
}
