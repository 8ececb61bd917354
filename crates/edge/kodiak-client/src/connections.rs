//! Connections to a control plane: over the network, or over its socket on this machine.

use std::future::Future;
use std::io;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::{Request, Uri};
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::{Client, ResponseFuture, connect::HttpConnector};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::UnixStream;
use tower::Service;

use super::{Endpoint, IN_FLIGHT, SetupError, tls};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

pub(super) enum Connections {
    Network(Client<HttpsConnector<HttpConnector>, Full<Bytes>>),
    Socket(Client<Socket, Full<Bytes>>),
}

impl Connections {
    pub(super) fn to(endpoint: &Endpoint) -> Result<Self, SetupError> {
        let mut builder = Client::builder(TokioExecutor::new());
        builder.pool_max_idle_per_host(IN_FLIGHT);
        if let Some(path) = endpoint.address.socket() {
            return Ok(Self::Socket(builder.build(Socket(path.into()))));
        }
        let mut http = HttpConnector::new();
        http.enforce_http(false);
        http.set_nodelay(true);
        http.set_connect_timeout(Some(CONNECT_TIMEOUT));
        let connector = hyper_rustls::HttpsConnectorBuilder::new()
            .with_tls_config(tls::config(endpoint)?)
            .https_or_http()
            .enable_http1()
            .wrap_connector(http);
        Ok(Self::Network(builder.build(connector)))
    }

    pub(super) fn request(&self, request: Request<Full<Bytes>>) -> ResponseFuture {
        match self {
            Self::Network(client) => client.request(request),
            Self::Socket(client) => client.request(request),
        }
    }
}

/// Connects to this path, whatever host is asked for.
#[derive(Clone)]
pub(super) struct Socket(Arc<Path>);

impl Service<Uri> for Socket {
    type Response = TokioIo<UnixStream>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<TokioIo<UnixStream>>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        let path = self.0.clone();
        Box::pin(async move { UnixStream::connect(&*path).await.map(TokioIo::new) })
    }
}
