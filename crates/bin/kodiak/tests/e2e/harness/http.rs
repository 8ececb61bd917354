//! Requests, each over a new connection.

use std::{
    net::{Ipv4Addr, SocketAddr},
    path::Path,
    time::Duration,
};

use http_body_util::{BodyExt as _, Full};
use hyper::{
    HeaderMap, Method, Request, StatusCode,
    body::Bytes,
    header::{CONTENT_TYPE, HOST},
    rt::{Read, Write},
};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::{TcpStream, UnixStream};

/// Longer than anything takes; an answer that never comes is a failure, not a hanging test.
const LONGEST: Duration = Duration::from_secs(20);

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) text: String,
}

impl Answer {
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    #[track_caller]
    pub(crate) fn fine(self) -> Self {
        assert!(self.status.is_success(), "{self:?}");
        self
    }

    /// Empty when there is none.
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }
}

pub(crate) async fn get(address: SocketAddr, path: &str) -> Result<Answer, String> {
    get_with(address, path, &[]).await
}

/// With these headers.
pub(crate) async fn get_with(address: SocketAddr, path: &str, headers: &[(&str, &str)]) -> Result<Answer, String> {
    call(address, Method::GET, path, headers, String::new()).await
}

pub(crate) async fn send(address: SocketAddr, method: Method, path: &str, body: String) -> Result<Answer, String> {
    call(address, method, path, &[(CONTENT_TYPE.as_str(), "application/json")], body).await
}

async fn call(
    address: SocketAddr,
    method: Method,
    path: &str,
    headers: &[(&str, &str)],
    body: String,
) -> Result<Answer, String> {
    let exchange = async {
        let stream = TcpStream::connect(address).await.map_err(|error| format!("cannot connect: {error}"))?;
        carry(TokioIo::new(stream), &address.to_string(), method, path, headers, body).await
    };
    in_time(exchange).await
}

/// Request to the admin interface of an Envoy.
pub(crate) async fn ask(socket: &Path, method: Method, path: &str) -> Result<Answer, String> {
    let exchange = async {
        let stream = UnixStream::connect(socket).await.map_err(|error| format!("cannot connect: {error}"))?;
        let host = Ipv4Addr::LOCALHOST.to_string();
        carry(TokioIo::new(stream), &host, method, path, &[], String::new()).await
    };
    in_time(exchange).await
}

async fn in_time(exchange: impl Future<Output = Result<Answer, String>>) -> Result<Answer, String> {
    tokio::time::timeout(LONGEST, exchange).await.map_err(|_| format!("no answer within {LONGEST:?}"))?
}

pub(super) async fn carry(
    io: impl Read + Write + Unpin + Send + 'static,
    host: &str,
    method: Method,
    path: &str,
    headers: &[(&str, &str)],
    body: String,
) -> Result<Answer, String> {
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(io).await.map_err(|error| error.to_string())?;
    let connection = tokio::spawn(connection);
    let request = Request::builder().method(method).uri(path).header(HOST, host);
    let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
    let request = request.body(Full::new(Bytes::from(body))).unwrap();
    let response = sender.send_request(request).await.map_err(|error| format!("no answer: {error}"))?;
    let (head, body) = response.into_parts();
    let body = body.collect().await.map_err(|error| format!("half an answer: {error}"))?;
    connection.abort();
    let text = String::from_utf8_lossy(&body.to_bytes()).into_owned();
    Ok(Answer { status: head.status, headers: head.headers, text })
}
