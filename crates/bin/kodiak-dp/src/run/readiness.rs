//! `GET /ready`: whether traffic may be sent to this proxy. `GET /access-logs`: counters of forwarded access logs.

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

use crate::access_logs::AccessLogCounts;
use crate::socket;

/// Connections at a time: there are few clients, and each asks every few seconds.
const MAX_CONNECTIONS: usize = 64;
const CONNECTION_TIME: Duration = Duration::from_secs(10);
/// Delay after a failed accept, mostly for want of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

pub(super) struct Readiness {
    pub(super) admin: PathBuf,
    /// Set when the proxy drains; never reset.
    pub(super) terminating: AtomicBool,
    pub(super) access_logs: AccessLogCounts,
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
                tracing::warn!(%error, "failed to accept a connection for /ready");
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
        tracing::debug!(%error, "connection for /ready closed with an error");
    }
}

async fn answer(request: &Request<Incoming>, readiness: &Readiness) -> Response<Full<Bytes>> {
    let (status, text) = match (request.method(), request.uri().path()) {
        (&Method::GET, "/ready") => own(ready(readiness).await),
        (&Method::GET, "/access-logs") => (StatusCode::OK, access_logs(readiness)),
        (_, "/ready" | "/access-logs") => own((StatusCode::METHOD_NOT_ALLOWED, "ask with GET\n")),
        (_, _) => own((StatusCode::NOT_FOUND, "there are only /ready and /access-logs\n")),
    };
    let mut response = Response::new(Full::from(text));
    *response.status_mut() = status;
    response
}

fn own((status, text): (StatusCode, &str)) -> (StatusCode, String) {
    (status, text.to_owned())
}

/// Counters of the access logs that are forwarded to TCP servers, as JSON.
fn access_logs(readiness: &Readiness) -> String {
    serde_json::to_string(&readiness.access_logs.status()).expect("counters and addresses are JSON") + "\n"
}

async fn ready(readiness: &Readiness) -> (StatusCode, &'static str) {
    const NOT_READY: (StatusCode, &str) = (StatusCode::SERVICE_UNAVAILABLE, "NOT_READY\n");
    const TERMINATING: (StatusCode, &str) = (StatusCode::SERVICE_UNAVAILABLE, "TERMINATING\n");
    if readiness.terminating.load(Ordering::SeqCst) {
        return TERMINATING;
    }
    match socket::ask(&readiness.admin, Method::GET, "/ready", &[]).await {
        Ok(answer) if answer.status == StatusCode::OK && answer.body.trim_ascii() == b"LIVE" => {
            // The drain may have begun while Envoy answered.
            if readiness.terminating.load(Ordering::SeqCst) { TERMINATING } else { (StatusCode::OK, "READY\n") }
        }
        Ok(_) => NOT_READY,
        Err(error) => {
            tracing::debug!(%error, "failed to get the readiness of Envoy");
            NOT_READY
        }
    }
}
