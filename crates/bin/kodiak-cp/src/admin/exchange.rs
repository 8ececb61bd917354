//! One request to an admin interface.

use std::net::SocketAddr;

use http_body_util::{BodyExt as _, Empty};
use hyper::{
    Request, StatusCode,
    body::{Body as _, Bytes, Incoming},
};
use hyper_rustls::{FixedServerNameResolver, HttpsConnectorBuilder};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use kodiak_ca::AdminClient;
use kodiak_crypto::client_config_with;
use rustls::pki_types::ServerName;

use super::LARGEST;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ExchangeError {
    /// Too many others ask.
    Busy,
    /// No connection, no proof of the proxy's identity, or no complete response.
    Unreachable(String),
    TooLarge,
    Status(StatusCode),
}

impl std::fmt::Display for ExchangeError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Busy => f.write_str(super::BUSY),
            Self::Unreachable(reason) => f.write_str(reason),
            Self::TooLarge => write!(f, "the response is larger than {} MiB", LARGEST >> 20),
            Self::Status(status) => write!(f, "Envoy responded with {status}"),
        }
    }
}

/// Response body of at most `largest` bytes. The proxy's certificate must be valid for `host`, and issued by the CA of our
/// own.
pub(super) async fn get(
    address: SocketAddr,
    host: &str,
    path: &str,
    identity: &AdminClient,
    largest: usize,
) -> Result<Vec<u8>, ExchangeError> {
    let unreachable = |reason: String| ExchangeError::Unreachable(reason);
    let AdminClient { certificate, key, ca } = identity;
    let tls = client_config_with(ca.as_bytes(), certificate.as_bytes(), key.expose().as_bytes());
    let name = ServerName::try_from(host.to_owned()).map_err(|error| unreachable(error.to_string()))?;
    let mut http = HttpConnector::new();
    http.enforce_http(false);
    let connector = HttpsConnectorBuilder::new()
        .with_tls_config(tls.map_err(|error| unreachable(error.to_string()))?)
        .https_only()
        .with_server_name_resolver(FixedServerNameResolver::new(name))
        .enable_http1()
        .wrap_connector(http);
    let client: Client<_, Empty<Bytes>> = Client::builder(TokioExecutor::new()).build(connector);
    let request = Request::get(format!("https://{address}{path}")).body(Empty::new());
    let request = request.map_err(|error| unreachable(error.to_string()))?;
    let response = client.request(request).await.map_err(|error| unreachable(innermost(&error)))?;
    let status = response.status();
    if !status.is_success() {
        return Err(ExchangeError::Status(status));
    }
    read(response.into_body(), largest).await
}

/// Stops at the limit, so that no more than that is ever in memory.
async fn read(mut body: Incoming, largest: usize) -> Result<Vec<u8>, ExchangeError> {
    if body.size_hint().lower() > largest as u64 {
        return Err(ExchangeError::TooLarge);
    }
    let mut read = Vec::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| ExchangeError::Unreachable(innermost(&error)))?;
        let Ok(data) = frame.into_data() else { continue };
        let length = read.len() + data.len();
        if length > largest {
            return Err(ExchangeError::TooLarge);
        }
        if length > read.capacity() {
            let capacity = length.max(2 * read.capacity()).min(largest);
            read.reserve_exact(capacity - read.len());
        }
        read.extend_from_slice(&data);
    }
    Ok(read)
}

/// Innermost cause: the errors around it only add that a connection was attempted.
fn innermost(error: &(dyn std::error::Error + 'static)) -> String {
    let causes = std::iter::successors(Some(error), |error| {
        // `source` of an I/O error skips the error that it wraps.
        let wrapped = error.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref);
        wrapped.map(|error| error as &(dyn std::error::Error + 'static)).or_else(|| error.source())
    });
    causes.last().map(ToString::to_string).unwrap_or_default()
}
