//! REST client of a control plane: one connection pool, bounded responses, errors with advice.
//!
//! In: an [`Endpoint`] and requests. Out: JSON values of the API, or a [`ClientError`]. Kinds come from a table of kinds,
//! such as that of `kodiak-kinds`.
//!
//! ```no_run
//! use std::time::Duration;
//!
//! use kodiak_client::{Address, Client, Endpoint, ListQuery};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let address = Address::parse("https://cp.example.com:5682")?;
//! let endpoint = Endpoint {
//!     ca_cert_file: Some("/etc/kodiak/ca.pem".into()),
//!     token: Some(std::env::var("KODIAK_TOKEN")?),
//!     ..Endpoint::anonymous(address)
//! };
//! let client = Client::new(&endpoint, Some(Duration::from_secs(30)))?;
//! let kind = kodiak_kinds::kinds().by_name("Dataplane").ok_or("no such kind")?;
//! let dataplanes = client.list_all(&ListQuery::all_of(kind, Some("default")), |_, _| ()).await;
//! let dataplanes = dataplanes.map_err(|error| format!("{error}; {}", error.advice().unwrap_or_default()))?;
//! assert!(dataplanes.iter().all(|dataplane| dataplane["type"] == "Dataplane"));
//! # Ok(())
//! # }
//! ```
//!
//! **Invariant:** the certificate of a control plane is always verified.
//! **Invariant:** every request ends, by a response or by its timeout.

#![cfg_attr(test, allow(clippy::needless_raw_string_hashes, reason = "expect-test writes them"))]

mod address;
mod backup;
mod calls;
mod connections;
mod diff;
mod endpoint;
mod error;
mod identities;
mod inspect;
mod migration;
mod paging;
mod resources;
mod setup;
mod tls;
mod traffic;

use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, USER_AGENT};
use hyper::{Method, Request, StatusCode};
use serde::de::DeserializeOwned;

use address::encode;
use connections::Connections;

pub use address::{Address, AddressError, LOCAL};
pub use endpoint::{ClientCertificate, Endpoint};
pub use error::{ClientError, ConnectFailure, Refusal, RootCause};
pub use paging::{ListQuery, Page, PageRange};
pub use resources::{ControlPlaneInfo, PutResult, ResourceId};
pub use setup::SetupError;

/// Requests to send concurrently where there are many.
pub const IN_FLIGHT: usize = 64;

/// Upper bound of a response; no control plane sends a larger one.
const MAX_RESPONSE: usize = 64 << 20;

/// REST client of one control plane. Requests share a connection pool.
pub struct Client {
    connections: Connections,
    address: Address,
    headers: HeaderMap,
    /// `None` disables it.
    timeout: Option<Duration>,
}

/// Response with any status.
struct Response {
    status: StatusCode,
    body: Bytes,
}

impl Client {
    /// `timeout` applies to each request; `None` or zero disables it. Reads the files of the endpoint, and does not
    /// connect yet.
    pub fn new(endpoint: &Endpoint, timeout: Option<Duration>) -> Result<Self, SetupError> {
        Ok(Self {
            connections: Connections::to(endpoint)?,
            address: endpoint.address.clone(),
            headers: headers(endpoint)?,
            timeout: timeout.filter(|limit| !limit.is_zero()),
        })
    }

    /// Address that requests are sent to.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// Sends a request and reads the whole response.
    async fn send(&self, method: Method, path: &str, body: Option<Bytes>) -> Result<Response, ClientError> {
        tracing::debug!(%method, path, "sending request");
        let what = format!("{method} {path}");
        let Some(limit) = self.timeout else { return self.exchange(method, path, body, &what).await };
        match tokio::time::timeout(limit, self.exchange(method, path, body, &what)).await {
            Ok(answer) => answer,
            Err(_) => Err(self.timed_out(limit)),
        }
    }

    async fn exchange(
        &self,
        method: Method,
        path: &str,
        body: Option<Bytes>,
        what: &str,
    ) -> Result<Response, ClientError> {
        let mut request = Request::builder().method(method).uri(self.address.url(path));
        if let Some(headers) = request.headers_mut() {
            headers.extend(self.headers.clone());
            if body.is_some() {
                headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
            }
        }
        let request = request
            .body(Full::new(body.unwrap_or_default()))
            .expect("the address was parsed and the parts of the path are encoded");
        let response = self.connections.request(request).await.map_err(|error| self.unreachable(&error))?;
        let status = response.status();
        let body = Limited::new(response.into_body(), MAX_RESPONSE).collect().await.map_err(|error| {
            if error.is::<LengthLimitError>() {
                ClientError::TooLarge { address: self.address.to_string(), what: what.to_owned() }
            } else {
                self.unreachable(&*error)
            }
        })?;
        tracing::debug!(%status, what, "received response");
        Ok(Response { status, body: body.to_bytes() })
    }

    /// `GET`, with a JSON response.
    async fn read<T: DeserializeOwned>(&self, path: &str) -> Result<T, ClientError> {
        let answer = self.send(Method::GET, path, None).await?;
        self.json(&format!("GET {path}"), &answer.success()?)
    }

    fn json<T: DeserializeOwned>(&self, what: &str, body: &[u8]) -> Result<T, ClientError> {
        serde_json::from_slice(body).map_err(|source| ClientError::NotUnderstood {
            address: self.address.to_string(),
            what: what.to_owned(),
            source,
        })
    }

    fn timed_out(&self, after: Duration) -> ClientError {
        ClientError::TimedOut { address: self.address.to_string(), after }
    }

    fn unreachable(&self, error: &(dyn std::error::Error + 'static)) -> ClientError {
        let (failure, source) = RootCause::of(error);
        ClientError::Unreachable { address: self.address.to_string(), failure, source }
    }
}

impl Response {
    fn success(self) -> Result<Bytes, Refusal> {
        if self.status.is_success() { Ok(self.body) } else { Err(Refusal::read(self.status, &self.body)) }
    }

    /// `None` for 404.
    fn found(self) -> Result<Option<Bytes>, Refusal> {
        if self.status == StatusCode::NOT_FOUND { Ok(None) } else { self.success().map(Some) }
    }
}

fn headers(endpoint: &Endpoint) -> Result<HeaderMap, SetupError> {
    let mut headers = HeaderMap::new();
    headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
    headers.insert(USER_AGENT, HeaderValue::from_static(concat!("kodiak/", env!("CARGO_PKG_VERSION"))));
    for (key, value) in &endpoint.headers {
        let name = HeaderName::try_from(key).map_err(|_| SetupError::HeaderName(key.clone()))?;
        // The value may be a secret, so the error omits it.
        let mut value = HeaderValue::try_from(value).map_err(|_| SetupError::HeaderValue(key.clone()))?;
        value.set_sensitive(true);
        headers.append(name, value);
    }
    if let Some(token) = &endpoint.token {
        let mut bearer = HeaderValue::try_from(format!("Bearer {}", token.trim())).map_err(|_| SetupError::Token)?;
        bearer.set_sensitive(true);
        headers.insert(AUTHORIZATION, bearer);
    }
    Ok(headers)
}
