//! Malicious client without a token.

use std::{fs, net::SocketAddr, sync::Arc, time::Duration};

use bytes::Bytes;
use http_body_util::{BodyExt as _, Empty, Full};
use hyper::{Request, StatusCode, client::conn::http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, ServerName, pem::PemObject as _},
};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::harness::{ControlPlane, PATIENCE};

const ADS: &str = "/envoy.service.discovery.v3.AggregatedDiscoveryService/DeltaAggregatedResources";

#[derive(Clone)]
pub(crate) struct Attacker {
    pub(crate) api: SocketAddr,
    pub(crate) proxies: SocketAddr,
    tls: Arc<ClientConfig>,
}

impl Attacker {
    pub(crate) fn of(control_plane: &ControlPlane) -> Self {
        let certificate = fs::read(control_plane.certificate()).unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(&certificate).unwrap()).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        let mut tls = builder.with_root_certificates(roots).with_no_client_auth();
        tls.alpn_protocols = vec![b"h2".to_vec()];
        let proxies = control_plane.url().strip_prefix("https://").unwrap().parse().unwrap();
        Self { api: control_plane.api(), proxies, tls: Arc::new(tls) }
    }

    /// Connects as a proxy would, and is rejected without a token.
    pub(crate) async fn stream_without_token(self) {
        let stream = TcpStream::connect(self.proxies).await.unwrap();
        let name = ServerName::from(self.proxies.ip());
        // Above the limit, some connections are closed.
        let Ok(stream) = TlsConnector::from(self.tls).connect(name, stream).await else { return };
        let Ok((mut sender, connection)) = http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await else {
            return;
        };
        let connection = tokio::spawn(connection);
        let request = Request::post(format!("https://{}{ADS}", self.proxies))
            .header("content-type", "application/grpc")
            .header("te", "trailers")
            .body(Empty::<Bytes>::new())
            .unwrap();
        if let Ok(response) = sender.send_request(request).await {
            assert_eq!(response.headers()["grpc-status"], "16", "UNAUTHENTICATED");
        }
        connection.abort();
    }

    /// Opens streams and resets them until the connection is closed.
    pub(crate) async fn rapid_resets(self) {
        let Ok(stream) = TcpStream::connect(self.api).await else { return };
        let Ok((mut sender, connection)) = http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await else {
            return;
        };
        tokio::spawn(connection);
        let flood = async {
            while sender.ready().await.is_ok() {
                let uri = format!("http://{}/openapi.json", self.api);
                let request = sender.send_request(Request::get(uri).body(Empty::<Bytes>::new()).unwrap());
                // Dropped as soon as it is under way, which resets its stream.
                let _ = tokio::time::timeout(Duration::from_micros(300), request).await;
            }
        };
        tokio::time::timeout(PATIENCE, flood).await.expect("the connection is cut");
    }

    /// Sends more than the limit.
    pub(crate) async fn long_body(self, length: usize) {
        let stream = TcpStream::connect(self.api).await.unwrap();
        let Ok((mut sender, connection)) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await else {
            return;
        };
        let connection = tokio::spawn(connection);
        let request = Request::put(format!("http://{}/meshes/flood", self.api))
            .header("host", self.api.to_string())
            .header("content-type", "application/json")
            .body(Full::new(Bytes::from(vec![b' '; length])))
            .unwrap();
        // The server need not read on to refuse it.
        if let Ok(response) = sender.send_request(request).await {
            assert_eq!(response.status(), StatusCode::PAYLOAD_TOO_LARGE);
            let _ = response.into_body().collect().await;
        }
        connection.abort();
    }
}
