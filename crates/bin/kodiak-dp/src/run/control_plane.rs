//! Requests to the control plane over HTTPS: `/bootstrap`, `/drain`, `/plaintext-callers` and `/resolve`.

use std::error::Error;
use std::io;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderValue, USER_AGENT};
use hyper::{Method, Request, StatusCode, Uri};
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::{Client, connect::HttpConnector};
use hyper_util::rt::TokioExecutor;
use serde::Deserialize;
use serde_json::json;
use tokio::time::{Instant, sleep, timeout};

use super::{Options, RunError};
use crate::dns::{Answer, Directory};
use crate::plaintext_callers::{Report, Sent};

const REQUEST_TIME: Duration = Duration::from_secs(10);
/// Timeout of one `/drain` request.
const DRAIN_TIME: Duration = Duration::from_secs(3);
const DRAIN_RETRY: Duration = Duration::from_millis(200);
/// Largest bootstrap.
const MAX_ANSWER: usize = 4 << 20;
/// Longest error text of a response that is shown.
const LONGEST_REFUSAL: usize = 2000;
const JSON: HeaderValue = HeaderValue::from_static("application/json");

pub(super) struct ControlPlane {
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    /// Without a trailing slash.
    address: String,
    token: Option<HeaderValue>,
    retry_every: Duration,
}

#[derive(Deserialize)]
struct BootstrapAnswer {
    bootstrap: String,
}

#[derive(Deserialize)]
struct ResolveAnswer {
    address: Ipv4Addr,
}

/// The hostnames of the mesh of a proxy.
pub(super) struct MeshDirectory {
    pub(super) control_plane: Arc<ControlPlane>,
    pub(super) mesh: String,
    pub(super) name: String,
}

impl Directory for MeshDirectory {
    fn resolve<'a>(&'a self, hostname: &'a str) -> Answer<'a> {
        Box::pin(self.control_plane.resolve(&self.mesh, &self.name, hostname))
    }
}

impl ControlPlane {
    pub(super) fn new(options: &Options) -> Result<Self, RunError> {
        let wrong = || RunError::Address { address: options.control_plane.clone() };
        let uri: Uri = options.control_plane.parse().map_err(|_| wrong())?;
        if uri.scheme_str() != Some("https") || uri.host().is_none_or(str::is_empty) || uri.query().is_some() {
            return Err(wrong());
        }
        let mut http = HttpConnector::new();
        http.enforce_http(false);
        let connector = hyper_rustls::HttpsConnectorBuilder::new()
            .with_tls_config(kodiak_crypto::client_config(&options.ca_pem).map_err(RunError::Ca)?)
            .https_only()
            .enable_http1()
            .wrap_connector(http);
        let token = options.token.as_ref().map(|token| HeaderValue::try_from(&token.text));
        let mut token = token.transpose().map_err(|_| RunError::Token)?;
        if let Some(token) = &mut token {
            token.set_sensitive(true);
        }
        Ok(Self {
            // The next request is much later.
            client: Client::builder(TokioExecutor::new()).pool_max_idle_per_host(0).build(connector),
            address: options.control_plane.trim_end_matches('/').to_owned(),
            token,
            retry_every: options.retry_every,
        })
    }

    /// Waits until the control plane is reachable and knows the proxy, and returns the bootstrap of Envoy.
    pub(super) async fn bootstrap(&self, request: &[u8]) -> Result<Vec<u8>, RunError> {
        loop {
            let waits_for = match self.post("/bootstrap", Bytes::copy_from_slice(request), None).await {
                Ok((StatusCode::OK, body)) => return self.read(&body),
                Ok((StatusCode::NOT_FOUND, body)) if body.is_empty() => {
                    "the control plane does not have this Dataplane yet; create it, or pass --dataplane-file".to_owned()
                }
                // A token may become valid: when its time begins, or when the control plane has its key.
                Ok((StatusCode::UNAUTHORIZED, body)) => {
                    let body: String = String::from_utf8_lossy(&body).trim().chars().take(LONGEST_REFUSAL).collect();
                    format!("the control plane refused the dataplane token: {body}")
                }
                Ok((status, body)) if status.is_client_error() => {
                    let body = String::from_utf8_lossy(&body).trim().chars().take(LONGEST_REFUSAL).collect();
                    return Err(RunError::Refused { status, body });
                }
                Ok((status, body)) => {
                    let body: String = String::from_utf8_lossy(&body).trim().chars().take(LONGEST_REFUSAL).collect();
                    format!("the control plane answered {status}: {body}")
                }
                Err(RequestError::Untrusted(source)) => {
                    return Err(RunError::Untrusted { address: self.address.clone(), source });
                }
                Err(RequestError::Passing(why)) => format!("the control plane cannot be reached: {why}"),
            };
            let (address, retry) = (&self.address, self.retry_every);
            tracing::warn!(%address, "failed to get the bootstrap: {waits_for}; retrying in {retry:?}");
            sleep(self.retry_every).await;
        }
    }

    fn read(&self, body: &[u8]) -> Result<Vec<u8>, RunError> {
        let odd = |why: String| RunError::NotUnderstood { address: self.address.clone(), why };
        let answer: BootstrapAnswer = serde_json::from_slice(body).map_err(|error| odd(error.to_string()))?;
        BASE64_STANDARD.decode(answer.bootstrap).map_err(|error| odd(format!("the bootstrap is no base64: {error}")))
    }

    /// Reports that the proxy is about to end, so that others send it nothing new. A control plane that cannot take it,
    /// because it restarts or its store is down, is asked again until `until`; one that does not support the request
    /// notices the end by itself, later.
    pub(super) async fn drain(&self, mesh: &str, name: &str, until: Instant) {
        let body = Bytes::from(json!({"mesh": mesh, "name": name}).to_string());
        loop {
            let told = timeout(DRAIN_TIME, self.post("/drain", body.clone(), self.token.clone())).await;
            let (error, final_answer) = match told {
                Ok(Ok((status, _))) if status.is_success() => return,
                // Kuma has no such request.
                Ok(Ok((StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED, _))) => {
                    tracing::debug!("the control plane takes no reports of proxies that are about to end");
                    return;
                }
                Ok(Ok((status, _))) => (format!("it answered {status}"), status.is_client_error()),
                Ok(Err(RequestError::Untrusted(error))) => (error.to_string(), true),
                Ok(Err(RequestError::Passing(error))) => (error, false),
                Err(_) => (format!("no response within {DRAIN_TIME:?}"), false),
            };
            if final_answer || Instant::now() + DRAIN_RETRY >= until {
                tracing::warn!(%error, "failed to report to the control plane that this proxy is about to end");
                return;
            }
            tracing::debug!(%error, "failed to report that this proxy is about to end, retrying");
            sleep(DRAIN_RETRY).await;
        }
    }

    /// Reports callers of this proxy without mTLS. Repeating it is up to the caller.
    pub(super) async fn report_plaintext_callers(&self, mesh: &str, name: &str, report: &Report) -> Sent {
        let mut body = json!(report);
        body["mesh"] = mesh.into();
        body["name"] = name.into();
        let answer = self.post("/plaintext-callers", Bytes::from(body.to_string()), self.token.clone()).await;
        let error = match answer {
            Ok((status, _)) if status.is_success() => return Sent::Answered,
            // It does not observe traffic any more, or never did.
            Ok((StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED, _)) => return Sent::Answered,
            Ok((status, _)) => format!("it answered {status}"),
            Err(RequestError::Untrusted(error)) => error.to_string(),
            Err(RequestError::Passing(error)) => error,
        };
        tracing::debug!(%error, "failed to report callers without mTLS, retrying");
        Sent::Failed
    }

    /// Address of a hostname of the mesh, also of a destination that the proxy may not call.
    async fn resolve(&self, mesh: &str, name: &str, hostname: &str) -> Result<Option<Ipv4Addr>, String> {
        let body = Bytes::from(json!({"mesh": mesh, "name": name, "hostname": hostname}).to_string());
        match self.post("/resolve", body, self.token.clone()).await {
            Ok((StatusCode::OK, body)) => {
                let answer: ResolveAnswer = serde_json::from_slice(&body).map_err(|error| error.to_string())?;
                Ok(Some(answer.address))
            }
            Ok((StatusCode::NOT_FOUND, _)) => Ok(None),
            Ok((status, _)) => Err(format!("it answered {status}")),
            Err(RequestError::Untrusted(error)) => Err(error.to_string()),
            Err(RequestError::Passing(error)) => Err(error),
        }
    }

    async fn post(
        &self,
        path: &str,
        body: Bytes,
        authorization: Option<HeaderValue>,
    ) -> Result<(StatusCode, Bytes), RequestError> {
        let mut request = Request::builder().method(Method::POST).uri(format!("{}{path}", self.address));
        if let Some(headers) = request.headers_mut() {
            headers.insert(ACCEPT, JSON);
            headers.insert(CONTENT_TYPE, JSON);
            headers.insert(USER_AGENT, HeaderValue::from_static(concat!("kodiak-dp/", env!("CARGO_PKG_VERSION"))));
            headers.extend(authorization.map(|token| (AUTHORIZATION, token)));
        }
        let request = request.body(Full::new(body)).expect("the address was parsed when this was made");
        let exchange = async {
            let response = self.client.request(request).await.map_err(|error| RequestError::of(&error))?;
            let status = response.status();
            let body = Limited::new(response.into_body(), MAX_ANSWER).collect().await;
            Ok((status, body.map_err(|error| RequestError::of(&*error))?.to_bytes()))
        };
        let timed_out = |_| RequestError::Passing(format!("no response within {REQUEST_TIME:?}"));
        timeout(REQUEST_TIME, exchange).await.map_err(timed_out)?
    }
}

/// Why a request got no response.
enum RequestError {
    /// Waiting does not help: the CA file is read once.
    Untrusted(rustls::Error),
    Passing(String),
}

impl RequestError {
    fn of(error: &(dyn Error + 'static)) -> Self {
        let mut innermost = error;
        loop {
            if let Some(untrusted @ rustls::Error::InvalidCertificate(_)) = innermost.downcast_ref() {
                return Self::Untrusted(untrusted.clone());
            }
            // An I/O error that wraps another error names the source of that one as its own.
            let wrapped = innermost.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
            match wrapped.map(|error| error as &(dyn Error + 'static)).or_else(|| innermost.source()) {
                Some(inner) => innermost = inner,
                None => return Self::Passing(innermost.to_string()),
            }
        }
    }
}
