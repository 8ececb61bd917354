//! Serves metrics on a Unix socket, which Envoy's listeners for Prometheus lead to.

use std::convert::Infallible;
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, ETAG, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;

use super::scrape::Scraper;
use super::settings::MetricsSettings;
use super::{exposition, push};
use crate::dynamic_config;

const PATH: &str = "/meshmetric";
const REFRESH: Duration = Duration::from_secs(1);
/// Envoy has few connections, and there are few instances of Prometheus.
const MAX_CONNECTIONS: usize = 32;
/// Scrapes at a time: each may hold many megabytes.
const AT_A_TIME: usize = 2;
/// Idle connections of Envoy are closed after this.
const CONNECTION_TIME: Duration = Duration::from_mins(10);
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Sockets that it uses.
pub(crate) struct MetricsServer {
    listener: UnixListener,
    dynamic_config: PathBuf,
    state: Arc<State>,
    settings: watch::Sender<Arc<MetricsSettings>>,
}

struct State {
    scraper: Scraper,
    settings: watch::Receiver<Arc<MetricsSettings>>,
    turns: Semaphore,
}

impl MetricsServer {
    /// Only our user may connect.
    pub(crate) fn bind(socket: &Path, admin: PathBuf, dynamic_config: PathBuf) -> io::Result<Self> {
        let listener = UnixListener::bind(socket)?;
        fs::set_permissions(socket, Permissions::from_mode(0o600))?;
        let (settings, current) = watch::channel(Arc::default());
        let turns = Semaphore::new(AT_A_TIME);
        let state = Arc::new(State { scraper: Scraper::new(admin), settings: current, turns });
        Ok(Self { listener, dynamic_config, state, settings })
    }

    /// Serves, refreshes its settings and pushes to collectors, forever.
    pub(crate) async fn serve(self) {
        let Self { listener, dynamic_config, state, settings } = self;
        // Envoy runs in the folder of its sockets, and the control plane may name them relative to it.
        let folder = dynamic_config.parent().unwrap_or(Path::new("/"));
        let pushes = push::forever(&state.scraper, folder, state.settings.clone());
        tokio::select! {
            () = accept(listener, Arc::clone(&state)) => (),
            () = refresh(&dynamic_config, &settings) => (),
            () = pushes => (),
        }
    }
}

async fn refresh(dynamic_config: &Path, settings: &watch::Sender<Arc<MetricsSettings>>) {
    let mut version: Option<HeaderValue> = None;
    loop {
        if let Some(answer) = dynamic_config::changed(dynamic_config, PATH, version.as_ref()).await {
            match MetricsSettings::from_json(&answer.body) {
                Ok(read) => {
                    let (applications, collectors) = (read.applications.len(), read.backends.len());
                    tracing::info!(applications, collectors, "settings for metrics changed");
                    version = answer.headers.get(ETAG).cloned();
                    settings.send_replace(Arc::new(read));
                }
                Err(error) => {
                    tracing::warn!(%error, "failed to decode settings for metrics, keeping the last ones");
                }
            }
        }
        tokio::time::sleep(REFRESH).await;
    }
}

async fn accept(listener: UnixListener, state: Arc<State>) {
    let mut connections = JoinSet::new();
    loop {
        while connections.try_join_next().is_some() {}
        if connections.len() >= MAX_CONNECTIONS {
            connections.join_next().await;
            continue;
        }
        match listener.accept().await {
            Ok((stream, _)) => {
                let state = Arc::clone(&state);
                connections.spawn(tokio::time::timeout(CONNECTION_TIME, connection(stream, state)));
            }
            Err(error) => {
                tracing::warn!(%error, "failed to accept a connection for metrics");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

async fn connection(stream: UnixStream, state: Arc<State>) {
    let service = service_fn(|request| {
        let state = Arc::clone(&state);
        async move { Ok::<_, Infallible>(answer(&request, &state).await) }
    });
    let mut server = http1::Builder::new();
    server.timer(TokioTimer::new());
    if let Err(error) = server.serve_connection(TokioIo::new(stream), service).await {
        tracing::debug!(%error, "connection for metrics closed with an error");
    }
}

async fn answer(request: &Request<Incoming>, state: &State) -> Response<Full<Bytes>> {
    match (request.method(), request.uri().path()) {
        (&Method::GET, PATH) => metrics(state).await,
        (_, PATH) => text(StatusCode::METHOD_NOT_ALLOWED, "ask with GET\n".to_owned()),
        (_, _) => text(StatusCode::NOT_FOUND, "not found\n".to_owned()),
    }
}

async fn metrics(state: &State) -> Response<Full<Bytes>> {
    let _turn = state.turns.acquire().await;
    let settings = state.settings.borrow().clone();
    match state.scraper.merged(&settings).await {
        Ok(merged) => {
            let mut response = Response::new(Full::from(exposition::write(merged.families())));
            response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(exposition::CONTENT_TYPE));
            response
        }
        Err(error) => {
            tracing::warn!(%error, "failed to get metrics from Envoy");
            text(StatusCode::BAD_GATEWAY, format!("failed to get metrics from Envoy: {error}\n"))
        }
    }
}

fn text(status: StatusCode, text: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::from(text));
    *response.status_mut() = status;
    response
}
