//! Collector of spans in Zipkin's JSON format, for the scenario of tracing.

use std::collections::{BTreeMap, VecDeque};
use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Context as _;
use bytes::Bytes;
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde::{Deserialize, Serialize};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

/// Traces that are remembered.
const MOST_TRACES: usize = 256;
const LONGEST_BODY: usize = 1 << 22;

/// Stops when dropped.
pub(super) struct Collector {
    pub(super) address: SocketAddr,
    traces: Arc<Mutex<Traces>>,
    _tasks: JoinSet<()>,
}

#[derive(Default)]
struct Traces {
    by_id: BTreeMap<String, Vec<Span>>,
    /// Oldest first.
    order: VecDeque<String>,
    spans: u64,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[derive(Default)]
struct Span {
    trace_id: String,
    /// In microseconds.
    timestamp: u64,
    /// In microseconds.
    duration: u64,
    local_endpoint: LocalEndpoint,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct LocalEndpoint {
    service_name: String,
}

/// The trace with the most services, of those that are remembered.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct LongestTrace {
    pub(super) id: String,
    /// In the order of their first spans.
    pub(super) services: Vec<String>,
    pub(super) spans: usize,
    pub(super) milliseconds: f64,
}

impl Collector {
    pub(super) async fn start() -> anyhow::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.context("cannot listen for spans")?;
        let address = listener.local_addr()?;
        let traces = Arc::new(Mutex::new(Traces::default()));
        let mut tasks = JoinSet::new();
        tasks.spawn(serve(listener, Arc::clone(&traces)));
        Ok(Self { address, traces, _tasks: tasks })
    }

    /// Number of spans so far.
    pub(super) fn spans(&self) -> u64 {
        self.traces().spans
    }

    pub(super) fn longest(&self) -> Option<LongestTrace> {
        self.traces().longest()
    }

    fn traces(&self) -> std::sync::MutexGuard<'_, Traces> {
        self.traces.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn serve(listener: TcpListener, traces: Arc<Mutex<Traces>>) {
    let mut connections = JoinSet::new();
    loop {
        while connections.try_join_next().is_some() {}
        let Ok((stream, _)) = listener.accept().await else { continue };
        let traces = Arc::clone(&traces);
        connections.spawn(async move {
            let service = service_fn(move |request| take(request, Arc::clone(&traces)));
            // A proxy that stops closes its connection.
            let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

async fn take(request: Request<Incoming>, traces: Arc<Mutex<Traces>>) -> Result<Response<Empty<Bytes>>, Infallible> {
    let body = Limited::new(request.into_body(), LONGEST_BODY).collect().await;
    let spans = body.ok().and_then(|body| serde_json::from_slice::<Vec<Span>>(&body.to_bytes()).ok());
    let status = if spans.is_some() { StatusCode::ACCEPTED } else { StatusCode::BAD_REQUEST };
    let mut traces = traces.lock().unwrap_or_else(PoisonError::into_inner);
    spans.into_iter().flatten().for_each(|span| traces.add(span));
    let mut response = Response::new(Empty::new());
    *response.status_mut() = status;
    Ok(response)
}

impl Traces {
    fn add(&mut self, span: Span) {
        self.spans += 1;
        if !self.by_id.contains_key(&span.trace_id) {
            self.order.push_back(span.trace_id.clone());
            if self.order.len() > MOST_TRACES
                && let Some(oldest) = self.order.pop_front()
            {
                self.by_id.remove(&oldest);
            }
        }
        self.by_id.entry(span.trace_id.clone()).or_default().push(span);
    }

    fn longest(&self) -> Option<LongestTrace> {
        let of = |(id, spans): (&String, &Vec<Span>)| {
            let mut spans: Vec<&Span> = spans.iter().collect();
            spans.sort_by_key(|span| span.timestamp);
            let mut services: Vec<String> = Vec::new();
            for span in &spans {
                if !services.contains(&span.local_endpoint.service_name) {
                    services.push(span.local_endpoint.service_name.clone());
                }
            }
            let (start, end) =
                (spans.first()?.timestamp, spans.iter().map(|span| span.timestamp + span.duration).max()?);
            #[expect(clippy::cast_precision_loss, reason = "for people")]
            let milliseconds = (end - start) as f64 / 1000.0;
            Some(LongestTrace { id: id.clone(), services, spans: spans.len(), milliseconds })
        };
        self.by_id.iter().filter_map(of).max_by_key(|trace| (trace.services.len(), trace.spans))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(trace: &str, service: &str, timestamp: u64) -> Span {
        let local_endpoint = LocalEndpoint { service_name: service.to_owned() };
        Span { trace_id: trace.to_owned(), timestamp, duration: 500, local_endpoint }
    }

    #[test]
    fn trace_with_the_most_services_is_shown_in_order_of_time() {
        let mut traces = Traces::default();
        assert_eq!(traces.longest(), None);
        for (trace, service, at) in [("a", "db", 9), ("b", "api", 2000), ("b", "web", 1000), ("b", "api", 2100)] {
            traces.add(span(trace, service, at));
        }
        let services = vec!["web".to_owned(), "api".to_owned()];
        let expected = LongestTrace { id: "b".to_owned(), services, spans: 3, milliseconds: 1.6 };
        assert_eq!(traces.longest(), Some(expected));
    }

    #[test]
    fn old_traces_are_forgotten() {
        let mut traces = Traces::default();
        for number in 0..MOST_TRACES + 10 {
            traces.add(span(&number.to_string(), "web", 1));
        }
        assert_eq!((traces.by_id.len(), traces.order.len()), (MOST_TRACES, MOST_TRACES));
        assert_eq!(traces.spans, u64::try_from(MOST_TRACES).unwrap() + 10);
    }
}
