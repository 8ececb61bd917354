//! `kodiak demo echo`: a service that answers with what it was asked, and calls others when asked to.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
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

/// How long open requests have once it is to end.
const GRACE: Duration = Duration::from_secs(5);
/// After a failed accept, mostly for want of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

#[derive(clap::Args)]
#[command(after_help = "\
It answers every path with its name, the path and the headers it got, as JSON; x-forwarded-client-cert among them says
as whom a proxy knows the caller. /via/NAME/REST asks the service of that --next for /REST, and puts its answer into its
own. It speaks HTTP/1.1 and HTTP/2 without TLS, on this machine alone.

Examples:
  kodiak demo echo --name db --port 9000
  kodiak demo echo --name api --port 9001 --next db=http://127.0.0.1:9000
  curl localhost:9001/via/db/rows")]
pub(super) struct Args {
    /// What it calls itself
    #[arg(long)]
    name: String,

    /// Where it listens on 127.0.0.1; 0 is chosen by the system and printed
    #[arg(long, default_value_t = 0)]
    port: u16,

    /// A service that it can call, by a name. May be repeated
    #[arg(long, value_name = "NAME=URL", value_parser = kodiak_terminal::key_value)]
    next: Vec<(String, String)>,

    /// End when standard input does, so as not to outlive who started it
    #[arg(long, hide = true)]
    while_stdin_is_open: bool,
}

struct Echo {
    name: String,
    next: BTreeMap<String, Uri>,
    caller: Caller,
}

pub(super) async fn run(args: Args, terminal: Terminal) -> anyhow::Result<Exit> {
    let mut signals = Signals::listen()?;
    let Args { name, port, next, while_stdin_is_open } = args;
    let next = next.into_iter().map(|(name, url)| Ok((name, address(&url)?))).collect::<anyhow::Result<_>>()?;
    let echo = Arc::new(Echo { name, next, caller: Caller::new() });
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
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

/// `http://host:port`, with or without a slash at its end.
fn address(url: &str) -> anyhow::Result<Uri> {
    let uri = url.parse::<Uri>().ok();
    let plain = |uri: &Uri| uri.scheme_str() == Some("http") && uri.authority().is_some() && uri.path() == "/";
    uri.filter(plain).ok_or_else(|| usage(format!("{url:?} is no address; write for example http://127.0.0.1:9000")))
}

/// Read by a thread that nobody waits for: one of the runtime would keep the process while standard input is open.
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
                tracing::warn!(%error, "Cannot accept a connection.");
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
    // An answer is one small write, which need not wait for more.
    let _ = stream.set_nodelay(true);
    let http = auto::Builder::new(TokioExecutor::new());
    let served = connections.watch(http.serve_connection(TokioIo::new(stream), service).into_owned());
    tokio::spawn(async move {
        if let Err(error) = served.await {
            tracing::debug!(%error, "A connection was broken off.");
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
            (status, next) = self.call(way).await;
            answer["next"] = next;
        }
        let mut response = Response::new(Full::from(answer.to_string()));
        *response.status_mut() = status;
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        response
    }

    /// The next one's status, and what it says.
    async fn call(&self, way: &str) -> (StatusCode, Value) {
        let (name, rest) = way.split_once('/').unwrap_or((way, ""));
        let Some(address) = self.next.get(name) else {
            return (StatusCode::NOT_FOUND, json!({"error": format!("{} knows nobody named {name:?}", self.name)}));
        };
        let Ok(uri) = format!("{address}{rest}").parse() else {
            return (StatusCode::BAD_REQUEST, json!({"error": format!("{rest:?} is no path")}));
        };
        match self.caller.get(uri, Connection::Kept).await {
            Ok(answer) => {
                let text = || Value::from(String::from_utf8_lossy(&answer.body).into_owned());
                (answer.status, serde_json::from_slice(&answer.body).unwrap_or_else(|_| text()))
            }
            Err(error) => (StatusCode::BAD_GATEWAY, json!({"error": error})),
        }
    }
}

/// Where one came more than once, the last.
fn headers(headers: &HeaderMap) -> BTreeMap<&str, String> {
    let text = |value: &HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    headers.iter().map(|(name, value)| (name.as_str(), text(value))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_of_plain_http_are_taken() {
        assert_eq!(address("http://127.0.0.1:9000").unwrap().to_string(), "http://127.0.0.1:9000/");
        for wrong in ["", "127.0.0.1:9000", "https://127.0.0.1", "http://127.0.0.1/path", "http://"] {
            assert!(address(wrong).is_err(), "{wrong}");
        }
    }
}
