//! Listening: TLS, then HTTP/1.1 or HTTP/2, with bounds on what a connection may take, and an end that tells proxies to
//! connect elsewhere.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, StatusCode, Version};
use http_body_util::{BodyExt as _, Either, Full, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use kodiak_xds_stream::{delta, sotw};
use rustls::ServerConfig;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio_rustls::{TlsAcceptor, server::TlsStream};
use tokio_util::sync::CancellationToken;

use crate::body::StreamBody;
use crate::grpc;
use crate::health;
use crate::limits::Limits;
use crate::outbox::{FRAME, Outbox};
use crate::proxies::{Closing, Proxies};
use crate::requests::Requests;
use crate::stream::{self, Context};

const DELTA: &str = "/envoy.service.discovery.v3.AggregatedDiscoveryService/DeltaAggregatedResources";
const STATE_OF_THE_WORLD: &str = "/envoy.service.discovery.v3.AggregatedDiscoveryService/StreamAggregatedResources";
const HEALTH: &str = "/envoy.service.health.v3.HealthDiscoveryService/StreamHealthCheck";
const MAX_HEADER_BYTES: u32 = 64 * 1024;
/// What a client may send on a stream ahead of being read. Requests are short, and answers to them are what costs. A
/// connection has as much for each of its streams: h2 cuts those off that have many short frames unread, by its window.
const RECEIVE_WINDOW: u32 = 64 * 1024;
/// What is taken from a stream's outbox ahead of being written to the socket.
const SEND_BUFFER: usize = 2 * FRAME;
/// After a failed accept, mostly for want of file descriptors: waiting lets some be given back.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

type ResponseBody = Either<StreamBody, Full<Bytes>>;

/// Serves until `drain`, then ends streams, and lets requests and farewells finish within `grace`.
pub async fn serve(
    listener: TcpListener,
    tls: Arc<ServerConfig>,
    proxies: Arc<dyn Proxies>,
    limits: Limits,
    drain: CancellationToken,
    grace: Duration,
) {
    let graceful = GracefulShutdown::new();
    let slots = Arc::new(Semaphore::new(limits.connections));
    let acceptor = TlsAcceptor::from(tls);
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
        let connection = Connection { peer, proxies: proxies.clone(), limits, drain: drain.clone() };
        let (acceptor, watcher) = (acceptor.clone(), graceful.watcher());
        connections.spawn(async move {
            let _slot = slot;
            handshake(stream, connection, acceptor, watcher).await;
        });
        while connections.try_join_next().is_some() {}
    }
    drop(listener);
    if tokio::time::timeout(grace, graceful.shutdown()).await.is_err() {
        tracing::warn!("Closing connections of proxies that did not end their streams in time.");
    }
    connections.shutdown().await;
}

/// What all requests of a connection need.
#[derive(Clone)]
struct Connection {
    peer: SocketAddr,
    proxies: Arc<dyn Proxies>,
    limits: Limits,
    drain: CancellationToken,
}

async fn handshake(stream: TcpStream, connection: Connection, acceptor: TlsAcceptor, watcher: Watcher) {
    let _ = stream.set_nodelay(true);
    let peer = connection.peer;
    match tokio::time::timeout(connection.limits.handshake, acceptor.accept(stream)).await {
        Ok(Ok(stream)) => requests(stream, connection, watcher).await,
        Ok(Err(error)) => tracing::debug!(%peer, %error, "A TLS handshake failed."),
        Err(_) => tracing::debug!(%peer, "A TLS handshake took too long."),
    }
}

async fn requests(stream: TlsStream<TcpStream>, connection: Connection, watcher: Watcher) {
    let Limits { streams, request_head, ping_every, ping_answer, .. } = connection.limits;
    let peer = connection.peer;
    let (begun, cut) = (CancellationToken::new(), CancellationToken::new());
    let service = service_fn(|request| {
        begun.cancel();
        let (connection, cut) = (connection.clone(), cut.clone());
        async move { Ok::<_, Infallible>(answer(request, connection, cut).await) }
    });
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(request_head).max_buf_size(MAX_HEADER_BYTES as usize);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_header_list_size(MAX_HEADER_BYTES)
        .max_concurrent_streams(streams)
        .initial_stream_window_size(RECEIVE_WINDOW)
        .initial_connection_window_size(RECEIVE_WINDOW.saturating_mul(streams))
        .max_send_buf_size(SEND_BUFFER)
        .keep_alive_interval(ping_every)
        .keep_alive_timeout(ping_answer);
    let served = builder.serve_connection(TokioIo::new(stream), service);
    tokio::select! {
        ended = watcher.watch(served) => if let Err(error) = ended {
            tracing::debug!(%peer, %error, "A connection ended with an error.");
        },
        () = stays_silent(&begun, request_head) => tracing::debug!(%peer, "A connection without a request is closed."),
        () = cut.cancelled() => (),
    }
}

/// Ends when there is no request in time. The bound of HTTP/1.1 does not begin before hyper knows the protocol.
async fn stays_silent(begun: &CancellationToken, time: Duration) {
    if tokio::time::timeout(time, begun.cancelled()).await.is_ok() {
        std::future::pending::<()>().await;
    }
}

async fn answer(request: Request<Incoming>, connection: Connection, cut: CancellationToken) -> Response<ResponseBody> {
    if !grpc::is_grpc(&request) {
        return plain(request, &connection).await.map(Either::Right);
    }
    if request.version() != Version::HTTP_2 {
        return unimplemented("gRPC needs HTTP/2");
    }
    match request.uri().path() {
        DELTA => open(request, connection, cut, stream::run::<delta::Subscription>),
        STATE_OF_THE_WORLD => open(request, connection, cut, stream::run::<sotw::Subscription>),
        HEALTH => open(request, connection, cut, health::run),
        _ => unimplemented("this port serves the streams of AggregatedDiscoveryService and HealthDiscoveryService, v3"),
    }
}

fn unimplemented(message: &str) -> Response<ResponseBody> {
    let closing = Closing { code: Closing::UNIMPLEMENTED, message: message.to_owned() };
    grpc::only_trailers::<Full<Bytes>>(&closing).map(Either::Right)
}

fn open<F: Future<Output = ()> + Send + 'static>(
    request: Request<Incoming>,
    connection: Connection,
    cut: CancellationToken,
    run: impl FnOnce(Context, Requests, Arc<Outbox>) -> F,
) -> Response<ResponseBody> {
    let Connection { peer, proxies, limits, drain } = connection;
    let credential = grpc::credential(request.headers());
    let context = Context { proxies, limits, drain, peer, credential, cut };
    let outbox = Arc::new(Outbox::default());
    let mut task = JoinSet::new();
    task.spawn(run(context, Requests::new(request.into_body()), outbox.clone()));
    grpc::opening(Either::Left(StreamBody::new(outbox, task)))
}

/// Reads the whole request, then has it answered.
async fn plain(request: Request<Incoming>, connection: &Connection) -> Response<Full<Bytes>> {
    let Limits { http_body, http_body_time, .. } = connection.limits;
    let (head, body) = request.into_parts();
    let body = match tokio::time::timeout(http_body_time, Limited::new(body, http_body).collect()).await {
        Ok(Ok(body)) => body.to_bytes(),
        Ok(Err(error)) if error.is::<LengthLimitError>() => {
            return refusal(StatusCode::PAYLOAD_TOO_LARGE, format!("the body has more than {http_body} bytes\n"));
        }
        Ok(Err(error)) => return refusal(StatusCode::BAD_REQUEST, format!("cannot read the body: {error}\n")),
        Err(_) => {
            return refusal(StatusCode::REQUEST_TIMEOUT, format!("the body was not sent within {http_body_time:?}\n"));
        }
    };
    connection.proxies.answer(Request::from_parts(head, body), connection.peer).await.map(Full::new)
}

fn refusal(status: StatusCode, message: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::from(message));
    *response.status_mut() = status;
    response
}
