//! Pushes metrics to OpenTelemetry collectors, through a socket of Envoy for each.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::{BufMut as _, Bytes, BytesMut};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::header::{CONTENT_TYPE, HOST, HeaderMap, HeaderValue, TE};
use hyper::{Request, StatusCode};
use hyper_util::rt::{TokioExecutor, TokioIo};
use prost::Message as _;
use tokio::net::UnixStream;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use super::otlp::{self, ExportMetricsServiceRequest};
use super::scrape::{ScrapeError, Scraper};
use super::settings::{CollectorSettings, HttpCollector, MetricsSettings};

const EXPORT: &str = "http://collector/opentelemetry.proto.collector.metrics.v1.MetricsService/Export";
const PUSH_TIME: Duration = Duration::from_secs(10);
/// Responses are a few bytes.
const LARGEST_RESPONSE: usize = 1 << 20;
const IDLE: Duration = Duration::from_hours(1);

#[derive(Debug, thiserror::Error)]
enum PushError {
    #[error(transparent)]
    Scrape(#[from] ScrapeError),
    #[error("the socket of the collector does not accept connections")]
    Connect(#[source] std::io::Error),
    #[error("the request failed")]
    Exchange(#[from] hyper::Error),
    #[error("the address or path of the collector is invalid")]
    Address(#[from] hyper::http::Error),
    #[error("failed to read the response")]
    Read(#[source] Box<dyn std::error::Error + Send + Sync>),
    #[error("the response has status {0}")]
    Status(StatusCode),
    #[error("gRPC status {code}: {message}")]
    Grpc { code: String, message: String },
    #[error("no response within {PUSH_TIME:?}")]
    TimedOut,
}

/// Socket of Envoy that leads to a collector, and the address for OTLP over HTTP.
#[derive(Clone, Copy)]
struct Target<'a> {
    socket: &'a Path,
    http: Option<&'a HttpCollector>,
}

/// Pushes to each collector once in its interval, and at once to a new one.
/// Sockets may be relative to the folder.
pub(super) async fn forever(scraper: &Scraper, folder: &Path, mut settings: watch::Receiver<Arc<MetricsSettings>>) {
    let started = SystemTime::now();
    let mut due: BTreeMap<String, Instant> = BTreeMap::new();
    loop {
        let current = settings.borrow_and_update().clone();
        let collectors: BTreeMap<&str, &CollectorSettings> = current
            .backends
            .iter()
            .filter_map(|backend| Some((backend.name.as_str(), backend.open_telemetry.as_ref()?)))
            .collect();
        due.retain(|name, _| collectors.contains_key(name.as_str()));
        for (name, collector) in &collectors {
            let at = due.entry((*name).to_owned()).or_insert_with(Instant::now);
            if *at > Instant::now() {
                continue;
            }
            *at = Instant::now() + collector.interval();
            let socket = folder.join(&collector.endpoint);
            let target = Target { socket: &socket, http: collector.http.as_ref() };
            let pushed = tokio::time::timeout(PUSH_TIME, push(scraper, &current, target, started)).await;
            if let Err(error) = pushed.unwrap_or(Err(PushError::TimedOut)) {
                let error = &error as &dyn std::error::Error;
                tracing::warn!(error, collector = name, "failed to push metrics, retrying at the next interval");
            }
        }
        let next = due.values().min().copied().unwrap_or_else(|| Instant::now() + IDLE);
        tokio::select! {
            () = sleep_until(next) => (),
            changed = settings.changed() => if changed.is_err() { return },
        }
    }
}

async fn push(
    scraper: &Scraper,
    settings: &MetricsSettings,
    target: Target<'_>,
    started: SystemTime,
) -> Result<(), PushError> {
    let sources = scraper.sources(settings).await?;
    for request in otlp::requests(&sources, &settings.extra_labels, started, SystemTime::now()) {
        let stream = UnixStream::connect(target.socket).await.map_err(PushError::Connect)?;
        match target.http {
            None => call(stream, &request).await?,
            Some(http) => post(stream, http, &request).await?,
        }
    }
    Ok(())
}

/// OTLP over HTTP: one request over a connection of its own.
async fn post(
    stream: UnixStream,
    HttpCollector { authority, path }: &HttpCollector,
    message: &ExportMetricsServiceRequest,
) -> Result<(), PushError> {
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    let request = Request::post(path)
        .header(HOST, authority)
        .header(CONTENT_TYPE, HeaderValue::from_static("application/x-protobuf"))
        .body(Full::new(Bytes::from(message.encode_to_vec())))?;
    let answered = async {
        let status = sender.send_request(request).await?.status();
        if status.is_success() { Ok(()) } else { Err(PushError::Status(status)) }
    };
    tokio::select! {
        answered = answered => answered,
        Err(error) = connection => Err(error.into()),
    }
}

/// OTLP over gRPC: one call over a connection of its own.
async fn call(stream: UnixStream, message: &ExportMetricsServiceRequest) -> Result<(), PushError> {
    let handshake = hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream));
    let (mut sender, connection) = handshake.await?;
    let call = async {
        let mut request = Request::post(EXPORT).body(Full::new(framed(message))).expect("all parts are constant");
        request.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
        request.headers_mut().insert(TE, HeaderValue::from_static("trailers"));
        let (head, body) = sender.send_request(request).await?.into_parts();
        if head.status != StatusCode::OK {
            return Err(PushError::Status(head.status));
        }
        let body = Limited::new(body, LARGEST_RESPONSE).collect().await.map_err(PushError::Read)?;
        // Without a message, the status is in the headers.
        succeeded(body.trailers().unwrap_or(&head.headers))
    };
    tokio::pin!(call);
    tokio::select! {
        biased;
        called = &mut call => called,
        ended = connection => {
            ended?;
            call.await
        }
    }
}

/// A gRPC message without compression.
fn framed(message: &ExportMetricsServiceRequest) -> Bytes {
    let encoded = message.encode_to_vec();
    let mut frame = BytesMut::with_capacity(encoded.len() + 5);
    frame.put_u8(0);
    frame.put_u32(u32::try_from(encoded.len()).expect("otlp limits the size of requests"));
    frame.extend_from_slice(&encoded);
    frame.freeze()
}

fn succeeded(status: &HeaderMap) -> Result<(), PushError> {
    let text = |name: &str| {
        status.get(name).map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned()).unwrap_or_default()
    };
    match text("grpc-status") {
        code if code == "0" => Ok(()),
        code => Err(PushError::Grpc { code, message: text("grpc-message") }),
    }
}
