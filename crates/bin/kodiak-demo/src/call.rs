//! A request: over a keep-alive connection, or over a new one.

use std::error::Error;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper::{HeaderMap, Request, StatusCode, Uri};
use hyper_util::client::legacy::{Client, connect::HttpConnector};
use hyper_util::rt::TokioExecutor;

/// Longer than default timeouts of proxies, so that the proxy times out first.
const PATIENCE: Duration = Duration::from_secs(20);
const MAX_ANSWER: usize = 1 << 20;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Connection {
    Kept,
    Fresh,
}

pub(super) struct CallResponse {
    pub(super) status: StatusCode,
    pub(super) body: Bytes,
}

/// Cheap to clone; all clones share their connections.
#[derive(Clone)]
pub(super) struct Caller {
    kept: Client<HttpConnector, Empty<Bytes>>,
    fresh: Client<HttpConnector, Empty<Bytes>>,
}

impl Caller {
    pub(super) fn new() -> Self {
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        Self {
            kept: Client::builder(TokioExecutor::new()).build(connector.clone()),
            fresh: Client::builder(TokioExecutor::new()).pool_max_idle_per_host(0).build(connector),
        }
    }

    /// The whole response, or the reason of the failure.
    pub(super) async fn get(&self, uri: Uri, connection: Connection) -> Result<CallResponse, String> {
        self.get_with(uri, HeaderMap::new(), connection).await
    }

    pub(super) async fn get_with(
        &self,
        uri: Uri,
        headers: HeaderMap,
        connection: Connection,
    ) -> Result<CallResponse, String> {
        let client = match connection {
            Connection::Kept => &self.kept,
            Connection::Fresh => &self.fresh,
        };
        let mut request = Request::new(Empty::new());
        (*request.uri_mut(), *request.headers_mut()) = (uri, headers);
        let exchange = async {
            let response = client.request(request).await.map_err(|error| innermost(&error))?;
            let status = response.status();
            let body = Limited::new(response.into_body(), MAX_ANSWER).collect().await;
            Ok(CallResponse { status, body: body.map_err(|error| innermost(&*error))?.to_bytes() })
        };
        let timed_out = |_| Err(format!("no response within {PATIENCE:?}"));
        tokio::time::timeout(PATIENCE, exchange).await.unwrap_or_else(timed_out)
    }
}

/// Innermost cause, which is the most specific one.
fn innermost(mut error: &(dyn Error + 'static)) -> String {
    while let Some(source) = error.source() {
        error = source;
    }
    error.to_string()
}
