//! One request: over a connection that is kept, or over one of its own.

use std::error::Error;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper::{StatusCode, Uri};
use hyper_util::client::legacy::{Client, connect::HttpConnector};
use hyper_util::rt::TokioExecutor;

/// Longer than any proxy waits by default, so that it is the proxy that gives up.
const PATIENCE: Duration = Duration::from_secs(20);
const MAX_ANSWER: usize = 1 << 20;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Connection {
    Kept,
    Fresh,
}

pub(super) struct Answer {
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

    /// The whole answer, or why there is none.
    pub(super) async fn get(&self, uri: Uri, connection: Connection) -> Result<Answer, String> {
        let client = match connection {
            Connection::Kept => &self.kept,
            Connection::Fresh => &self.fresh,
        };
        let exchange = async {
            let response = client.get(uri).await.map_err(|error| innermost(&error))?;
            let status = response.status();
            let body = Limited::new(response.into_body(), MAX_ANSWER).collect().await;
            Ok(Answer { status, body: body.map_err(|error| innermost(&*error))?.to_bytes() })
        };
        let timed_out = |_| Err(format!("there is no answer after {PATIENCE:?}"));
        tokio::time::timeout(PATIENCE, exchange).await.unwrap_or_else(timed_out)
    }
}

/// What it came from says the most.
fn innermost(mut error: &(dyn Error + 'static)) -> String {
    while let Some(source) = error.source() {
        error = source;
    }
    error.to_string()
}
