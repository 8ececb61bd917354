//! HTTP requests: over the Unix sockets of Envoy to its admin interface and to the configuration that the control plane
//! publishes through it, and over TCP to applications.

use std::io;
use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper::header::{HOST, HeaderMap, HeaderValue};
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::UnixStream;

/// Timeout: Envoy answers these at once, or does not work.
const PATIENCE: Duration = Duration::from_secs(5);
/// Largest response of a control plane.
const MAX_ANSWER: usize = 16 << 20;

pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum SocketError {
    #[error("the socket does not accept connections")]
    Connect(#[source] io::Error),
    #[error("the request failed")]
    Exchange(#[source] hyper::Error),
    #[error("failed to read the response")]
    Read(#[source] Box<dyn std::error::Error + Send + Sync>),
    #[error("no response within {PATIENCE:?}")]
    TimedOut,
}

/// One request over a connection of its own.
pub(crate) async fn ask(
    socket: &Path,
    method: Method,
    path: &str,
    headers: &[(&'static str, HeaderValue)],
) -> Result<Answer, SocketError> {
    ask_for_at_most(MAX_ANSWER, socket, method, path, headers).await
}

/// As above, with another limit of the response.
pub(crate) async fn ask_for_at_most(
    max: usize,
    socket: &Path,
    method: Method,
    path: &str,
    headers: &[(&'static str, HeaderValue)],
) -> Result<Answer, SocketError> {
    let mut request = Request::new(Empty::<Bytes>::new());
    *request.method_mut() = method;
    *request.uri_mut() = path.parse().expect("paths are written in this crate");
    request.headers_mut().insert(HOST, HeaderValue::from_static("localhost"));
    for (name, value) in headers {
        request.headers_mut().insert(*name, value.clone());
    }
    let asked = async {
        let stream = UnixStream::connect(socket).await.map_err(SocketError::Connect)?;
        exchange(stream, request, max).await
    };
    tokio::time::timeout(PATIENCE, asked).await.map_err(|_| SocketError::TimedOut)?
}

/// One request over a new connection, which is closed afterwards. The caller limits the time.
pub(crate) async fn exchange(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    request: Request<Empty<Bytes>>,
    max: usize,
) -> Result<Answer, SocketError> {
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(SocketError::Exchange)?;
    let answer = async {
        let response = sender.send_request(request).await.map_err(SocketError::Exchange)?;
        let (head, body) = response.into_parts();
        let body = Limited::new(body, max).collect().await.map_err(SocketError::Read)?.to_bytes();
        Ok(Answer { status: head.status, headers: head.headers, body })
    };
    tokio::pin!(answer);
    // The connection must be polled for the response to arrive; only the response matters.
    tokio::select! {
        biased;
        answer = &mut answer => answer,
        ended = connection => {
            ended.map_err(SocketError::Exchange)?;
            answer.await
        }
    }
}
