//! HTTP over Envoy's Unix sockets: its admin interface, and configuration that the control plane sends through it.

use std::io;
use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper::header::{HOST, HeaderMap, HeaderValue};
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::UnixStream;

/// Envoy responds to these at once, or is not able to.
const PATIENCE: Duration = Duration::from_secs(5);
/// Larger responses are not from a control plane.
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
    #[error("the response cannot be read")]
    Read(#[source] Box<dyn std::error::Error + Send + Sync>),
    #[error("no response after {PATIENCE:?}")]
    TimedOut,
}

/// One request over a new connection.
pub(crate) async fn ask(
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
    tokio::time::timeout(PATIENCE, exchange(socket, request)).await.map_err(|_| SocketError::TimedOut)?
}

async fn exchange(socket: &Path, request: Request<Empty<Bytes>>) -> Result<Answer, SocketError> {
    let stream = UnixStream::connect(socket).await.map_err(SocketError::Connect)?;
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(SocketError::Exchange)?;
    let answer = async {
        let response = sender.send_request(request).await.map_err(SocketError::Exchange)?;
        let (head, body) = response.into_parts();
        let body = Limited::new(body, MAX_ANSWER).collect().await.map_err(SocketError::Read)?.to_bytes();
        Ok(Answer { status: head.status, headers: head.headers, body })
    };
    tokio::pin!(answer);
    // The connection must be driven until the response arrives; only the response matters.
    tokio::select! {
        biased;
        answer = &mut answer => answer,
        ended = connection => {
            ended.map_err(SocketError::Exchange)?;
            answer.await
        }
    }
}
