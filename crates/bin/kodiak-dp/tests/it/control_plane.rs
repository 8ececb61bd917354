//! A control plane for one test: it notes what it is asked, and answers as the test says.

use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{HeaderMap, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use jiff::Timestamp;
use kodiak_crypto::{ServerCertParams, self_signed_server, server_config};
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

/// One request that came.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    pub(crate) path: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Value,
}

pub(crate) type Answer = (StatusCode, String);
/// The number of the request, from 0, and the request.
type Answers = dyn Fn(usize, Asked) -> Pin<Box<dyn Future<Output = Answer> + Send>> + Send + Sync;

/// Ends with this value.
pub(crate) struct ControlPlane {
    pub(crate) address: SocketAddr,
    /// What proxies have to trust.
    pub(crate) ca_pem: String,
    asked: Arc<Mutex<Vec<Asked>>>,
    _tasks: JoinSet<()>,
}

impl ControlPlane {
    pub(crate) async fn start<F>(answers: impl Fn(usize, Asked) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Answer> + Send + 'static,
    {
        let pair = certificate();
        let config = server_config(pair.cert_pem.as_bytes(), pair.key_pem.expose().as_bytes(), None).unwrap();
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let answers: Arc<Answers> = Arc::new(move |n, asked| Box::pin(answers(n, asked)));
        let mut tasks = JoinSet::new();
        tasks.spawn(serve(listener, TlsAcceptor::from(config), Arc::clone(&asked), answers));
        Self { address, ca_pem: pair.cert_pem, asked, _tasks: tasks }
    }

    pub(crate) fn url(&self) -> String {
        format!("https://localhost:{}", self.address.port())
    }

    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }
}

/// For `localhost`, with a key of its own each time.
pub(crate) fn certificate() -> kodiak_crypto::KeyPair {
    let valid_for = Duration::from_hours(1);
    self_signed_server(&ServerCertParams { hostnames: &[], ips: &[], valid_for, now: Timestamp::now() }).unwrap()
}

async fn serve(listener: TcpListener, tls: TlsAcceptor, asked: Arc<Mutex<Vec<Asked>>>, answers: Arc<Answers>) {
    let mut connections = JoinSet::new();
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        let (tls, asked, answers) = (tls.clone(), Arc::clone(&asked), Arc::clone(&answers));
        connections.spawn(async move {
            // Who does not trust us is gone by now.
            let Ok(stream) = tls.accept(stream).await else { return };
            let service = service_fn(|request| {
                let (asked, answers) = (Arc::clone(&asked), Arc::clone(&answers));
                async move { Ok::<_, Infallible>(answer(request, &asked, &*answers).await) }
            });
            let _ = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

async fn answer(request: Request<Incoming>, asked: &Mutex<Vec<Asked>>, answers: &Answers) -> Response<Full<Bytes>> {
    let (head, body) = request.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    let this =
        Asked { path: head.uri.path().to_owned(), headers: head.headers, body: serde_json::from_slice(&body).unwrap() };
    let n = {
        let mut asked = asked.lock().unwrap();
        asked.push(this.clone());
        asked.len() - 1
    };
    let (status, text) = answers(n, this).await;
    let mut response = Response::new(Full::from(text));
    *response.status_mut() = status;
    response
}
