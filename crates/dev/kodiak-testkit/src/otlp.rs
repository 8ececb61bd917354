//! An OpenTelemetry collector that keeps what it receives, over gRPC and over HTTP.

use std::{
    convert::Infallible,
    net::{Ipv4Addr, SocketAddr},
    sync::{Arc, Mutex},
};

use bytes::Bytes;
use http_body_util::{BodyExt as _, StreamBody};
use hyper::{
    HeaderMap, Request, Response, StatusCode,
    body::{Frame, Incoming},
    header::{CONTENT_TYPE, HeaderValue},
    service::service_fn,
};
use hyper_util::{
    rt::{TokioExecutor, TokioIo},
    server::conn::auto,
};
use opentelemetry_proto::tonic::{
    collector::{logs::v1::ExportLogsServiceRequest, trace::v1::ExportTraceServiceRequest},
    common::v1::{AnyValue, KeyValue, any_value},
};
use tokio::{
    net::TcpListener,
    task::{JoinHandle, JoinSet},
};

const LOGS: &str = "/opentelemetry.proto.collector.logs.v1.LogsService/Export";
const TRACES: &str = "/opentelemetry.proto.collector.trace.v1.TraceService/Export";
const LOGS_OVER_HTTP: &str = "/v1/logs";
const TRACES_OVER_HTTP: &str = "/v1/traces";
/// Compression flag and length before each gRPC message.
const PREFIX: usize = 5;

/// Runs until it is dropped.
pub struct Otlp {
    address: SocketAddr,
    received: Arc<Received>,
    server: JoinHandle<()>,
}

#[derive(Default)]
struct Received {
    traces: Mutex<Vec<ExportTraceServiceRequest>>,
    logs: Mutex<Vec<ExportLogsServiceRequest>>,
    /// Requests that it does not know, by path.
    unknown: Mutex<Vec<String>>,
}

/// A span, with the attributes of its resource.
#[derive(Debug, Clone, PartialEq)]
pub struct Span {
    /// In hexadecimal digits, like the other IDs.
    pub trace_id: String,
    pub span_id: String,
    /// Empty for the first span of a trace.
    pub parent_id: String,
    pub service: String,
    pub attributes: Vec<(String, String)>,
}

/// A log record, with the attributes of its resource.
#[derive(Debug, Clone, PartialEq)]
pub struct LogRecord {
    pub body: String,
    pub attributes: Vec<(String, String)>,
    pub resource: Vec<(String, String)>,
}

impl Span {
    /// Empty when there is none.
    pub fn attribute(&self, key: &str) -> &str {
        self.attributes.iter().find(|(name, _)| name == key).map_or("", |(_, value)| value)
    }
}

impl Otlp {
    pub async fn start() -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("loopback has free ports");
        let address = listener.local_addr().expect("a listener has an address");
        let received = Arc::<Received>::default();
        let server = tokio::spawn(serve(listener, received.clone()));
        Self { address, received, server }
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Log records that it received, in order.
    pub fn logs(&self) -> Vec<LogRecord> {
        self.received.check();
        self.received.logs.lock().expect("nobody panics with it").iter().flat_map(records).collect()
    }

    /// Spans that it received, in order.
    pub fn traces(&self) -> Vec<Span> {
        self.received.check();
        self.received.traces.lock().expect("nobody panics with it").iter().flat_map(spans).collect()
    }
}

impl Drop for Otlp {
    fn drop(&mut self) {
        self.server.abort();
    }
}

fn spans(request: &ExportTraceServiceRequest) -> Vec<Span> {
    let mut all = Vec::new();
    for resource in &request.resource_spans {
        let attributes = resource.resource.as_ref().map_or(&[][..], |resource| &resource.attributes);
        let service = attributes.iter().find(|attribute| attribute.key == "service.name").map(text).unwrap_or_default();
        for span in resource.scope_spans.iter().flat_map(|scope| &scope.spans) {
            all.push(Span {
                trace_id: hex(&span.trace_id),
                span_id: hex(&span.span_id),
                parent_id: hex(&span.parent_span_id),
                service: service.clone(),
                attributes: pairs(&span.attributes),
            });
        }
    }
    all
}

fn records(request: &ExportLogsServiceRequest) -> Vec<LogRecord> {
    let mut all = Vec::new();
    for logs in &request.resource_logs {
        let resource = logs.resource.as_ref().map_or(&[][..], |resource| &resource.attributes);
        for record in logs.scope_logs.iter().flat_map(|scope| &scope.log_records) {
            all.push(LogRecord {
                body: text_of(record.body.as_ref()),
                attributes: pairs(&record.attributes),
                resource: pairs(resource),
            });
        }
    }
    all
}

fn pairs(attributes: &[KeyValue]) -> Vec<(String, String)> {
    attributes.iter().map(|each| (each.key.clone(), text(each))).collect()
}

fn text(attribute: &KeyValue) -> String {
    text_of(attribute.value.as_ref())
}

fn text_of(value: Option<&AnyValue>) -> String {
    match value {
        Some(AnyValue { value: Some(any_value::Value::StringValue(text)) }) => text.clone(),
        other => format!("{other:?}"),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().concat()
}

/// Connections end with the server.
async fn serve(listener: TcpListener, received: Arc<Received>) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let received = received.clone();
        connections.spawn(async move {
            let answer = service_fn(move |request| answer(request, received.clone()));
            // Envoy closes its connections as it likes.
            let _ = auto::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(stream), answer).await;
        });
    }
}

type Body = StreamBody<Frames>;
type Frames = std::pin::Pin<Box<dyn futures_util::Stream<Item = Result<Frame<Bytes>, Infallible>> + Send>>;

async fn answer(request: Request<Incoming>, received: Arc<Received>) -> Result<Response<Body>, hyper::Error> {
    let path = request.uri().path().to_owned();
    let body = request.into_body().collect().await?.to_bytes();
    let message = body.get(PREFIX..).unwrap_or_default();
    match path.as_str() {
        TRACES => received.keep(&path, message, &received.traces),
        LOGS => received.keep(&path, message, &received.logs),
        _ => return Ok(answer_http(path, &body, &received)),
    }
    Ok(grpc_response())
}

fn answer_http(path: String, body: &[u8], received: &Received) -> Response<Body> {
    let mut response = response(Vec::new());
    if path.ends_with(TRACES_OVER_HTTP) {
        received.keep(&path, body, &received.traces);
    } else if path.ends_with(LOGS_OVER_HTTP) {
        received.keep(&path, body, &received.logs);
    } else {
        received.unknown.lock().expect("nobody panics with it").push(path);
        *response.status_mut() = StatusCode::NOT_FOUND;
    }
    response
}

impl Received {
    fn keep<M: prost::Message + Default>(&self, path: &str, message: &[u8], requests: &Mutex<Vec<M>>) {
        match M::decode(message) {
            Ok(request) => requests.lock().expect("nobody panics with it").push(request),
            Err(error) => self.unknown.lock().expect("nobody panics with it").push(format!("{path}: {error}")),
        }
    }

    fn check(&self) {
        let unknown = self.unknown.lock().expect("nobody panics with it");
        assert!(unknown.is_empty(), "unknown requests: {unknown:?}");
    }
}

/// An empty message and the status OK.
fn grpc_response() -> Response<Body> {
    let status = HeaderMap::from_iter([("grpc-status".parse().expect("a valid name"), HeaderValue::from_static("0"))]);
    let mut response = response(vec![Frame::data(Bytes::from_static(&[0; PREFIX])), Frame::trailers(status)]);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    response
}

fn response(frames: Vec<Frame<Bytes>>) -> Response<Body> {
    Response::new(StreamBody::new(Box::pin(futures_util::stream::iter(frames.into_iter().map(Ok)))))
}
