//! Client of Envoy's admin interface, through a listener that accepts certificates of control planes only.

use std::{net::IpAddr, time::Duration};

use http_body_util::{BodyExt as _, Empty, LengthLimitError, Limited};
use hyper::{Request, body::Bytes};
use hyper_rustls::HttpsConnectorBuilder;
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use kodiak_ca::AdminClient;
use kodiak_crypto::client_config_with;

const CONNECT: Duration = Duration::from_secs(3);
const TOTAL: Duration = Duration::from_secs(5);
/// Limit of a response; Envoy's are smaller.
const LARGEST: usize = 64 << 20;

/// Response body. The proxy's certificate must be valid for its address, and issued by the CA of our own.
pub(crate) async fn get(host: &str, port: u32, path: &str, identity: &AdminClient) -> Result<Bytes, String> {
    let address = address(host, port);
    let asked = tokio::time::timeout(TOTAL, exchange(&address, path, identity)).await;
    let slow = |_| format!("no response within {} s", TOTAL.as_secs());
    asked
        .map_err(slow)
        .flatten()
        .map_err(|error| format!("request to Envoy's admin listener at {address} failed: {error}"))
}

async fn exchange(address: &str, path: &str, identity: &AdminClient) -> Result<Bytes, String> {
    let AdminClient { certificate, key, ca } = identity;
    let tls = client_config_with(ca.as_bytes(), certificate.as_bytes(), key.expose().as_bytes());
    let mut http = HttpConnector::new();
    http.enforce_http(false);
    http.set_connect_timeout(Some(CONNECT));
    let connector = HttpsConnectorBuilder::new()
        .with_tls_config(tls.map_err(|error| error.to_string())?)
        .https_only()
        .enable_http1()
        .wrap_connector(http);
    let client: Client<_, Empty<Bytes>> = Client::builder(TokioExecutor::new()).build(connector);
    let request = Request::get(format!("https://{address}{path}")).body(Empty::new());
    let request = request.map_err(|_| "the address is not valid in a URL".to_owned())?;
    let response = client.request(request).await.map_err(|error| innermost(&error))?;
    let status = response.status();
    let body = Limited::new(response.into_body(), LARGEST).collect().await.map_err(|error| {
        if error.is::<LengthLimitError>() {
            format!("the response is larger than {} MiB", LARGEST >> 20)
        } else {
            innermost(&*error)
        }
    })?;
    if status.is_success() { Ok(body.to_bytes()) } else { Err(format!("Envoy responded with {status}")) }
}

/// `10.0.0.1:9901`, `[fd00::1]:9901` or `web.example:9901`.
fn address(host: &str, port: u32) -> String {
    match host.parse() {
        Ok(IpAddr::V6(ip)) => format!("[{ip}]:{port}"),
        Ok(IpAddr::V4(_)) | Err(_) => format!("{host}:{port}"),
    }
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
