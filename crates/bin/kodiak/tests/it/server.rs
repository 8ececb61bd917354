//! Minimal API server: stores resources, and records requests.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;

/// Serves until the test ends.
pub(crate) struct Server {
    pub(crate) port: u16,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
pub(crate) struct State {
    /// By the path of their URL.
    pub(crate) resources: BTreeMap<String, Value>,
    /// `PUT /zones/east`, and the bearer token of the request.
    pub(crate) requests: Vec<(String, Option<String>)>,
    pub(crate) connections: usize,
    /// Response to writes instead of storing them.
    pub(crate) refusals: BTreeMap<String, (u16, String)>,
    /// Warnings in responses to writes.
    pub(crate) warnings: BTreeMap<String, Vec<String>>,
    pub(crate) product: Option<String>,
    /// Body of responses to POST, for example a token.
    pub(crate) token: String,
    pub(crate) bodies: Vec<Value>,
    /// The next page is always the same.
    pub(crate) stuck: bool,
    /// Never answer.
    pub(crate) asleep: bool,
}

impl Server {
    pub(crate) fn start() -> Self {
        Self::start_with(None)
    }

    /// With TLS, and a self-signed certificate for `localhost`.
    pub(crate) fn start_tls() -> (Self, String) {
        let key = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let der = rustls::pki_types::PrivateKeyDer::try_from(key.signing_key.serialize_der()).unwrap();
        let config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![key.cert.der().clone()], der)
            .unwrap();
        (Self::start_with(Some(tokio_rustls::TlsAcceptor::from(Arc::new(config)))), key.cert.pem())
    }

    fn start_with(tls: Option<tokio_rustls::TlsAcceptor>) -> Self {
        let state = Arc::new(Mutex::new(State::default()));
        let mesh = json!({ "type": "Mesh", "name": "default" });
        state.lock().unwrap().resources.insert("/meshes/default".to_owned(), mesh);
        let (send_port, port) = std::sync::mpsc::channel();
        let shared = Arc::clone(&state);
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
                send_port.send(listener.local_addr().unwrap().port()).unwrap();
                loop {
                    let (stream, _) = listener.accept().await.unwrap();
                    shared.lock().unwrap().connections += 1;
                    let (shared, tls) = (Arc::clone(&shared), tls.clone());
                    tokio::spawn(async move {
                        match tls {
                            None => serve(stream, shared).await,
                            Some(tls) => {
                                if let Ok(stream) = tls.accept(stream).await {
                                    serve(stream, shared).await;
                                }
                            }
                        }
                    });
                }
            });
        });
        Self { port: port.recv().unwrap(), state }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://localhost:{}", self.port)
    }

    pub(crate) fn with<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        change(&mut self.state.lock().unwrap())
    }

    pub(crate) fn put(&self, path: &str, value: Value) {
        self.with(|state| state.resources.insert(path.to_owned(), value));
    }

    pub(crate) fn has(&self, path: &str) -> bool {
        self.with(|state| state.resources.contains_key(path))
    }

    /// Requests since the last call.
    pub(crate) fn requests(&self) -> Vec<String> {
        self.with(|state| std::mem::take(&mut state.requests)).into_iter().map(|(request, _)| request).collect()
    }
}

async fn serve(stream: impl AsyncRead + AsyncWrite + Unpin, state: Arc<Mutex<State>>) {
    let service = hyper::service::service_fn(move |request| answer(request, Arc::clone(&state)));
    let _ = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
}

async fn answer(request: Request<Incoming>, state: Arc<Mutex<State>>) -> Result<Response<Full<Bytes>>, Infallible> {
    let token = request.headers().get("authorization").and_then(|value| value.to_str().ok()).map(str::to_owned);
    let (method, uri) = (request.method().clone(), request.uri().clone());
    let json_body = request.headers().get("content-type").is_some_and(|value| value == "application/json");
    let body = request.into_body().collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
    let asleep = {
        let mut state = state.lock().unwrap();
        state.requests.push((format!("{method} {uri}"), token));
        state.asleep
    };
    if asleep {
        std::future::pending::<()>().await;
    }
    let mut state = state.lock().unwrap();
    let (status, body) = match method {
        Method::GET => state.get(uri.path(), uri.query().unwrap_or_default()),
        Method::PUT if json_body => state.write(uri.path(), &body),
        Method::PUT => (415, "415: Unsupported Media Type".to_owned()),
        Method::DELETE => state.delete(uri.path()),
        Method::POST => {
            state.bodies.push(serde_json::from_slice(&body).unwrap());
            state.refusals.get(uri.path()).cloned().unwrap_or_else(|| (200, state.token.clone()))
        }
        _ => (405, "405: Method Not Allowed".to_owned()),
    };
    let mut response = Response::new(Full::from(body));
    *response.status_mut() = StatusCode::from_u16(status).unwrap();
    Ok(response)
}

impl State {
    fn get(&self, path: &str, query: &str) -> (u16, String) {
        if path == "/" {
            let product = self.product.as_deref().unwrap_or("Kodiak");
            let index = json!({ "product": product, "version": "0.9.0", "hostname": "cp-1", "instanceId": "i-1", "clusterId": "c-1" });
            return (200, index.to_string());
        }
        if let Some(found) = self.resources.get(path.strip_suffix("/_overview").unwrap_or(path)) {
            return (200, found.to_string());
        }
        let parts: Vec<_> = path.trim_start_matches('/').split('/').filter(|part| *part != "_overview").collect();
        match parts.as_slice() {
            ["meshes", mesh, kind] if self.resources.contains_key(&format!("/meshes/{mesh}")) => {
                self.list(&format!("/meshes/{mesh}/{kind}/"), path, query)
            }
            [kind] if !kind.is_empty() => self.list(&format!("/{kind}/"), path, query),
            _ => not_found(),
        }
    }

    /// Page of the resources directly below `prefix`.
    fn list(&self, prefix: &str, path: &str, query: &str) -> (u16, String) {
        let parameter = |key: &str| query.split('&').find_map(|pair| pair.strip_prefix(key)?.strip_prefix('='));
        let number = |key: &str, default: usize| parameter(key).map_or(default, |text| text.parse().unwrap());
        let below =
            self.resources.iter().filter(|(path, _)| path.strip_prefix(prefix).is_some_and(|rest| !rest.contains('/')));
        let named = below
            .filter(|(path, _)| parameter("name").is_none_or(|part| path.rsplit('/').next().unwrap().contains(part)));
        let all: Vec<_> = named.map(|(_, value)| value).collect();
        let (size, offset) = (number("size", 100), number("offset", 0));
        let items: Vec<_> = all.iter().skip(offset).take(size).collect();
        let next = offset + items.len();
        let next = if self.stuck { offset.max(1) } else { next };
        let next =
            (self.stuck || next < all.len()).then(|| format!("http://another-host:1{path}?offset={next}&size={size}"));
        (200, json!({ "total": all.len(), "items": items, "next": next }).to_string())
    }

    fn write(&mut self, path: &str, body: &[u8]) -> (u16, String) {
        if let Some((status, body)) = self.refusals.get(path) {
            return (*status, body.clone());
        }
        let mut value: Value = serde_json::from_slice(body).unwrap();
        value["creationTime"] = "2026-11-15T12:00:00Z".into();
        value["modificationTime"] = "2026-11-15T12:00:00Z".into();
        if let Some(mesh) = value.get("mesh").cloned() {
            value["labels"]["kuma.io/mesh"] = mesh;
        }
        value["labels"]["kuma.io/origin"] = "zone".into();
        let created = self.resources.insert(path.to_owned(), value).is_none();
        let answer = self.warnings.get(path).map_or(json!({}), |warnings| json!({ "warnings": warnings }));
        (if created { 201 } else { 200 }, answer.to_string())
    }

    fn delete(&mut self, path: &str) -> (u16, String) {
        match self.resources.remove(path) {
            Some(_) => (200, "{}".to_owned()),
            None => not_found(),
        }
    }
}

fn not_found() -> (u16, String) {
    let body = json!({ "type": "/std-errors", "status": 404, "title": "Could not retrieve a resource", "detail": "Not found" });
    (404, body.to_string())
}
