//! `GET /ready`: whether traffic may be sent to this proxy.

use std::convert::Infallible;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use crate::socket;

/// Whoever asks does so every few seconds, and there are few of them.
const MAX_CONNECTIONS: usize = 64;
const CONNECTION_TIME: Duration = Duration::from_secs(10);
/// After a failed accept, mostly for want of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

pub(super) struct Readiness {
    pub(super) admin: PathBuf,
    /// Set when the proxy is to end; never taken back.
    pub(super) terminating: AtomicBool,
}

pub(super) async fn serve(listener: TcpListener, readiness: Arc<Readiness>) {
    let mut connections = JoinSet::new();
    loop {
        while connections.try_join_next().is_some() {}
        if connections.len() >= MAX_CONNECTIONS {
            connections.join_next().await;
            continue;
        }
        match listener.accept().await {
            Ok((stream, _)) => {
                let readiness = Arc::clone(&readiness);
                connections.spawn(tokio::time::timeout(CONNECTION_TIME, connection(stream, readiness)));
            }
            Err(error) => {
                tracing::warn!(%error, "Cannot accept a connection for /ready.");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

async fn connection(stream: TcpStream, readiness: Arc<Readiness>) {
    let service = service_fn(|request| {
        let readiness = Arc::clone(&readiness);
        async move { Ok::<_, Infallible>(answer(&request, &readiness).await) }
    });
    let mut server = http1::Builder::new();
    server.timer(TokioTimer::new()).keep_alive(false);
    if let Err(error) = server.serve_connection(TokioIo::new(stream), service).await {
        tracing::debug!(%error, "A question for /ready was broken off.");
    }
}

async fn answer(request: &Request<Incoming>, readiness: &Readiness) -> Response<Full<Bytes>> {
    let (status, text) = match (request.method(), request.uri().path()) {
        (&Method::GET, "/ready") => ready(readiness).await,
        (_, "/ready") => (StatusCode::METHOD_NOT_ALLOWED, "ask with GET\n"),
        (_, _) => (StatusCode::NOT_FOUND, "there is only /ready\n"),
    };
    let mut response = Response::new(Full::from(text));
    *response.status_mut() = status;
    response
}

async fn ready(readiness: &Readiness) -> (StatusCode, &'static str) {
    const NOT_READY: (StatusCode, &str) = (StatusCode::SERVICE_UNAVAILABLE, "NOT_READY\n");
    const TERMINATING: (StatusCode, &str) = (StatusCode::SERVICE_UNAVAILABLE, "TERMINATING\n");
    if readiness.terminating.load(Ordering::SeqCst) {
        return TERMINATING;
    }
    match socket::ask(&readiness.admin, Method::GET, "/ready", &[]).await {
        Ok(answer) if answer.status == StatusCode::OK && answer.body.trim_ascii() == b"LIVE" => {
            // It may have been told to end while Envoy was asked.
            if readiness.terminating.load(Ordering::SeqCst) { TERMINATING } else { (StatusCode::OK, "READY\n") }
        }
        Ok(_) => NOT_READY,
        Err(error) => {
            tracing::debug!(%error, "Envoy does not say whether it is ready.");
            NOT_READY
        }
    }
}
