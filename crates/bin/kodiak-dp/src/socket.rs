//! HTTP over the UNIX sockets of Envoy: its administration, and what the control plane tells us through it.

use std::io;
use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper::header::{HOST, HeaderMap, HeaderValue};
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::UnixStream;

/// Envoy answers these at once, or is in no state to.
const PATIENCE: Duration = Duration::from_secs(5);
/// Whatever is larger is not from a control plane.
const MAX_ANSWER: usize = 16 << 20;

pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum SocketError {
    #[error("nobody listens there")]
    Connect(#[source] io::Error),
    #[error("the exchange failed")]
    Exchange(#[source] hyper::Error),
    #[error("the answer cannot be read")]
    Read(#[source] Box<dyn std::error::Error + Send + Sync>),
    #[error("there is no answer after {PATIENCE:?}")]
    TimedOut,
}

/// One request over a connection of its own.
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
    // The connection must be driven for the answer to come; the answer is what counts.
    tokio::select! {
        biased;
        answer = &mut answer => answer,
        ended = connection => {
            ended.map_err(SocketError::Exchange)?;
            answer.await
        }
    }
}
