//! Diagnostics ports: health, readiness and metrics. They are served [apart](crate::apart).

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use axum::{
    Router,
    extract::State,
    http::{StatusCode, header},
    response::{IntoResponse, Response},
    routing::get,
};
use jiff::Timestamp;
use kodiak_metrics::Metrics;
use kodiak_reconcilers::{AbsenceLimits, Moment};
use kodiak_store::{Store, WriteProbe};
use tokio::sync::Mutex;

#[derive(Clone)]
pub(crate) struct Diagnostics {
    store: Store,
    metrics: Metrics,
    /// The default resources exist.
    started: Arc<AtomicBool>,
    writes: Arc<WriteProbe>,
    absence: AbsenceLimits,
    /// One scrape at a time: each reads every mesh, and probes must not wait for it.
    scrapes: Arc<Mutex<()>>,
}

impl Diagnostics {
    pub(crate) fn new(store: Store, metrics: Metrics, started: Arc<AtomicBool>, absence: AbsenceLimits) -> Self {
        Self { store, metrics, started, writes: Arc::default(), absence, scrapes: Arc::default() }
    }
}

pub(crate) fn router(diagnostics: Diagnostics) -> Router {
    health_routes().route("/metrics", get(metrics)).with_state(diagnostics)
}

/// Health and readiness only, for the port of probes.
pub(crate) fn health_router(diagnostics: Diagnostics) -> Router {
    health_routes().with_state(diagnostics)
}

fn health_routes() -> Router<Diagnostics> {
    Router::new().route("/healthy", get(|| async { "OK\n" })).route("/ready", get(ready))
}

/// Ready when requests are answered, including writes.
async fn ready(State(diagnostics): State<Diagnostics>) -> Response {
    if !diagnostics.started.load(Ordering::Acquire) {
        return (StatusCode::SERVICE_UNAVAILABLE, "not ready: starting\n").into_response();
    }
    match diagnostics.writes.ask(&diagnostics.store).await {
        Ok(()) => "OK\n".into_response(),
        Err(reason) => {
            let text = format!("not ready: read-only: {reason}\nreads are answered and proxies are served\n");
            (StatusCode::SERVICE_UNAVAILABLE, text).into_response()
        }
    }
}

async fn metrics(State(diagnostics): State<Diagnostics>) -> Response {
    let _scrape = diagnostics.scrapes.lock().await;
    let snapshot = diagnostics.store.snapshot();
    let moment = Moment { now: Timestamp::now(), limits: diagnostics.absence };
    let waiting = snapshot.list("Mesh").map(|record| {
        let mesh = record.key.name.to_string();
        let count = kodiak_reconcilers::rollout_status(snapshot.world(), &mesh, &moment)
            .map_or(0, |status| status.waiting.len());
        (mesh, count)
    });
    diagnostics.metrics.meshes.mtls_waiting(waiting.filter(|(_, count)| *count > 0));
    diagnostics.metrics.store.contents(snapshot.revision(), snapshot.counts());
    diagnostics.metrics.store.unreadable(snapshot.world().unreadable().count());
    diagnostics.metrics.leads(*diagnostics.store.leadership().borrow());
    let text = diagnostics.metrics.scrape();
    ([(header::CONTENT_TYPE, "application/openmetrics-text; version=1.0.0; charset=utf-8")], text).into_response()
}
