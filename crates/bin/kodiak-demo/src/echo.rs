//! `kodiak demo echo`: a service that echoes requests, and calls other services on request.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Context as _;
use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode, Uri};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::{conn::auto, graceful::GracefulShutdown};
use kodiak_terminal::{Exit, Signals, Terminal, usage};
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;

use super::call::{Caller, Connection};

/// Time for open requests to finish on shutdown.
const GRACE: Duration = Duration::from_secs(5);
/// Pause after a failed accept, mostly for lack of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Headers that an application forwards, so that spans of proxies belong to one trace. By prefix.
const TRACE_HEADERS: &[&str] =
    &["x-request-id", "x-b3-", "traceparent", "tracestate", "x-datadog-", "x-ot-span-context"];

#[derive(clap::Args)]
#[command(after_help = "\
Responds to every path with its name, the path and the request headers, as JSON; the header x-forwarded-client-cert has
the identity of the caller. /via/NAME/REST requests /REST from the service NAME of --next, and includes its response;
headers of traces are forwarded. /health responds with 200, or with 503 after a request to /health/fail, until one to
/health/pass.
The service speaks HTTP/1.1 and HTTP/2 without TLS.

Examples:
  kodiak demo echo --name db --port 9000
  kodiak demo echo --name api --port 9001 --next db=http://127.0.0.1:9000
  curl localhost:9001/via/db/rows")]
pub(super) struct Args {
    /// Name of the service
    #[arg(long)]
    name: String,

    /// Port; 0 lets the system choose one, which is printed
    #[arg(long, default_value_t = 0)]
    port: u16,

    /// Address to listen on
    #[arg(long, value_name = "IP", default_value_t = Ipv4Addr::LOCALHOST)]
    address: Ipv4Addr,

    /// Name and address of a service that it can call. May be repeated
    #[arg(long, value_name = "NAME=URL", value_parser = kodiak_terminal::key_value)]
    next: Vec<(String, String)>,

    /// Exit when standard input is closed, so as not to outlive the parent process
    #[arg(long, hide = true)]
    while_stdin_is_open: bool,
}

struct Echo {
    name: String,
    next: BTreeMap<String, Uri>,
    caller: Caller,
    /// Whether its health check fails.
    unhealthy: AtomicBool,
}

pub(super) async fn run(args: Args, terminal: Terminal) -> anyhow::Result<Exit> {
    let mut signals = Signals::listen()?;
    let Args { name, port, address: ip, next, while_stdin_is_open } = args;
    let next = next.into_iter().map(|(name, url)| Ok((name, address(&url)?))).collect::<anyhow::Result<_>>()?;
    let echo = Arc::new(Echo { name, next, caller: Caller::new(), unhealthy: AtomicBool::new(false) });
    let address = SocketAddr::from((ip, port));
    let listener = TcpListener::bind(address).await;
    let listener = listener.with_context(|| format!("cannot listen on {address}; choose another port with --port"))?;
    terminal.result(&format!("{} listens on {}", echo.name, listener.local_addr()?))?;
    let connections = GracefulShutdown::new();
    tokio::select! {
        () = serve(&listener, &connections, &echo) => (),
        () = signals.next() => (),
        () = end_of_stdin(), if while_stdin_is_open => (),
    }
    drop(listener);
    let _ = tokio::time::timeout(GRACE, connections.shutdown()).await;
    Ok(Exit::Fine)
}

/// `http://host:port`, with or without a trailing slash.
fn address(url: &str) -> anyhow::Result<Uri> {
    let uri = url.parse::<Uri>().ok();
    let plain = |uri: &Uri| uri.scheme_str() == Some("http") && uri.authority().is_some() && uri.path() == "/";
    uri.filter(plain).ok_or_else(|| usage(format!("{url:?} is no address; write for example http://127.0.0.1:9000")))
}

/// Reads in a detached thread: one of the runtime would keep the process alive while standard input is open.
async fn end_of_stdin() {
    let (ended, end) = oneshot::channel::<()>();
    std::thread::spawn(move || {
        let _ = std::io::copy(&mut std::io::stdin().lock(), &mut std::io::sink());
        drop(ended);
    });
    let _ = end.await;
}

async fn serve(listener: &TcpListener, connections: &GracefulShutdown, echo: &Arc<Echo>) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => connection(stream, connections, echo),
            Err(error) => {
                tracing::warn!(%error, "failed to accept connection, retrying");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

fn connection(stream: TcpStream, connections: &GracefulShutdown, echo: &Arc<Echo>) {
    let echo = Arc::clone(echo);
    let service = service_fn(move |request| {
        let echo = Arc::clone(&echo);
        async move { Ok::<_, Infallible>(echo.answer(&request).await) }
    });
    // A response is one small write, which need not wait for more.
    let _ = stream.set_nodelay(true);
    let http = auto::Builder::new(TokioExecutor::new());
    let served = connections.watch(http.serve_connection(TokioIo::new(stream), service).into_owned());
    tokio::spawn(async move {
        if let Err(error) = served.await {
            tracing::debug!(%error, "connection closed with an error");
        }
    });
}

impl Echo {
    async fn answer(&self, request: &Request<Incoming>) -> Response<Full<Bytes>> {
        let path = request.uri().path();
        let mut answer = json!({"name": self.name, "path": path, "headers": headers(request.headers())});
        let mut status = StatusCode::OK;
        if let Some(way) = path.strip_prefix("/via/") {
            let next;
            (status, next) = self.call(way, request.headers()).await;
            answer["next"] = next;
        } else if let Some(health) = path.strip_prefix("/health") {
            match health {
                "/fail" => self.unhealthy.store(true, Ordering::Relaxed),
                "/pass" => self.unhealthy.store(false, Ordering::Relaxed),
                _ if self.unhealthy.load(Ordering::Relaxed) => status = StatusCode::SERVICE_UNAVAILABLE,
                _ => (),
            }
        }
        let mut response = Response::new(Full::from(answer.to_string()));
        *response.status_mut() = status;
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        response
    }

    /// Status and body of the response of the next service.
    async fn call(&self, way: &str, headers: &HeaderMap) -> (StatusCode, Value) {
        let (name, rest) = way.split_once('/').unwrap_or((way, ""));
        let Some(address) = self.next.get(name) else {
            return (StatusCode::NOT_FOUND, json!({"error": format!("{} knows nobody named {name:?}", self.name)}));
        };
        let Ok(uri) = format!("{address}{rest}").parse() else {
            return (StatusCode::BAD_REQUEST, json!({"error": format!("{rest:?} is no path")}));
        };
        match self.caller.get_with(uri, trace_headers(headers), Connection::Kept).await {
            Ok(answer) => {
                let text = || Value::from(String::from_utf8_lossy(&answer.body).into_owned());
                (answer.status, serde_json::from_slice(&answer.body).unwrap_or_else(|_| text()))
            }
            Err(error) => (StatusCode::BAD_GATEWAY, json!({"error": error})),
        }
    }
}

fn trace_headers(headers: &HeaderMap) -> HeaderMap {
    let is_of_trace = |name: &str| TRACE_HEADERS.iter().any(|prefix| name.starts_with(prefix));
    headers
        .iter()
        .filter(|(name, _)| is_of_trace(name.as_str()))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}

/// Of repeated headers, the last one.
fn headers(headers: &HeaderMap) -> BTreeMap<&str, String> {
    let text = |value: &HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    headers.iter().map(|(name, value)| (name.as_str(), text(value))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_headers_of_traces_are_forwarded() {
        let names = ["x-b3-traceid", "accept", "traceparent", "x-request-id", "x-forwarded-client-cert"];
        let headers = names.map(|name| (name.parse().unwrap(), HeaderValue::from_static("1"))).into_iter().collect();
        let mut forwarded: Vec<_> = trace_headers(&headers).keys().map(ToString::to_string).collect();
        forwarded.sort();
        assert_eq!(forwarded, ["traceparent", "x-b3-traceid", "x-request-id"]);
    }

    #[test]
    fn accepts_only_plain_http_addresses() {
        assert_eq!(address("http://127.0.0.1:9000").unwrap().to_string(), "http://127.0.0.1:9000/");
        for wrong in ["", "127.0.0.1:9000", "https://127.0.0.1", "http://127.0.0.1/path", "http://"] {
            assert!(address(wrong).is_err(), "{wrong}");
        }
    }
}
