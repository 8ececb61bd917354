//! Real Envoys refuse wrong identities: a client of a foreign trust domain, an expired certificate, a server with another
//! SPIFFE ID.

use std::{
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use jiff::{SignedDuration, Timestamp};
use kodiak_crypto::{CaPair, IssuedLeaf, LeafSpec, LeafUsage, server_config};
use rustls::{
    ClientConfig, DigitallySignedStruct, SignatureScheme,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    crypto::aws_lc_rs,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime, pem::PemObject as _},
};
use serde_json::json;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};
use tokio_rustls::{TlsAcceptor, TlsConnector};

use super::{Bed, generated, root};
use crate::harness::{MESH, Mtls, eventually, expect, workload_address};

const TRUST_DOMAIN: &str = "strict.local";

#[tokio::test(flavor = "multi_thread")]
async fn servers_refuse_foreign_and_expired_clients() {
    let Some(bed) = Bed::start(Mtls::Strict(vec![Mtls::builtin("ca-1")])).await else { return };
    bed.identity("identity", &generated(TRUST_DOMAIN)).await;
    bed.until_issued(TRUST_DOMAIN).await;
    let ca = ca(&bed).await;
    let inbound = bed.api.dataplane.inbound();
    let now = Timestamp::now();
    let hour = SignedDuration::from_hours(1);
    let known = leaf(&ca, &format!("spiffe://{TRUST_DOMAIN}/workload/web"), now - hour, now + hour);
    let answer = call(inbound, &known).await;
    assert!(answer.as_ref().is_ok_and(|answer| answer.starts_with("HTTP/1.1 200")), "{answer:?}");
    let foreign = root("foreign.local");
    let foreign = CaPair::from_pem(foreign.cert_pem.as_bytes(), foreign.key_pem.expose().as_bytes()).unwrap();
    let id = format!("spiffe://{TRUST_DOMAIN}/workload/web");
    for (case, refused) in [
        ("foreign trust domain", leaf(&foreign, "spiffe://foreign.local/workload/web", now - hour, now + hour)),
        ("foreign domain by the CA of the mesh", leaf(&ca, "spiffe://foreign.local/web", now - hour, now + hour)),
        ("foreign CA for the domain of the mesh", leaf(&foreign, &id, now - hour, now + hour)),
        ("expired certificate", leaf(&ca, &id, now - hour, now - SignedDuration::from_secs(60))),
    ] {
        let answer = call(inbound, &refused).await;
        assert!(answer.is_err(), "{case}: {answer:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_refuse_a_server_with_another_spiffe_id() {
    let Some(bed) = Bed::start(Mtls::Strict(vec![Mtls::builtin("ca-1")])).await else { return };
    bed.identity("identity", &generated(TRUST_DOMAIN)).await;
    bed.until_issued(TRUST_DOMAIN).await;
    let now = Timestamp::now();
    let hour = SignedDuration::from_hours(1);
    let ca = ca(&bed).await;
    let acceptor = |workload: &str| {
        let leaf = leaf(&ca, &format!("spiffe://{TRUST_DOMAIN}/workload/{workload}"), now - hour, now + hour);
        let config = server_config(leaf.cert_pem.as_bytes(), leaf.key_pem.expose().as_bytes(), None).unwrap();
        let mut config = (*config).clone();
        config.alpn_protocols = vec![b"kuma".to_vec()];
        TlsAcceptor::from(Arc::new(config))
    };
    let current = Arc::new(Mutex::new(acceptor("other")));
    let (accepted, refused) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let listener = TcpListener::bind((workload_address(), 8080)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = tokio::spawn({
        let (current, accepted, refused) = (current.clone(), accepted.clone(), refused.clone());
        async move {
            while let Ok((connection, _)) = listener.accept().await {
                let (acceptor, accepted, refused) =
                    (current.lock().unwrap().clone(), accepted.clone(), refused.clone());
                tokio::spawn(async move {
                    // A client ends the handshake after it has verified the certificate.
                    let outcome = acceptor.accept(connection).await;
                    let count = if outcome.is_ok() { accepted } else { refused };
                    count.fetch_add(1, Ordering::Relaxed);
                });
            }
        }
    });
    // An endpoint of the same MeshService whose server has another SPIFFE ID than its Dataplane.
    let inbound = json!({ "port": 8080, "tags": { "kuma.io/service": "api", "kuma.io/protocol": "http" } });
    let dataplane = json!({
        "type": "Dataplane", "mesh": MESH, "name": "impostor", "labels": { "kuma.io/workload": "api" },
        "networking": { "address": address.ip(), "inbound": [inbound] },
    });
    bed.mesh.control_plane.put(&format!("/meshes/{MESH}/dataplanes/impostor"), &dataplane).await;
    let counts = || (accepted.load(Ordering::Relaxed), refused.load(Ordering::Relaxed));
    eventually("the client refuses the server", async || {
        let _ = bed.web.call().await;
        let (accepted, refused) = counts();
        assert_eq!(accepted, 0, "a server with another SPIFFE ID was accepted");
        expect(refused > 2, refused)
    })
    .await;
    *current.lock().unwrap() = acceptor("api");
    eventually("the client accepts the expected SPIFFE ID", async || {
        let _ = bed.web.call().await;
        expect(counts().0 > 0, counts())
    })
    .await;
    server.abort();
}

/// The CA of the identity.
async fn ca(bed: &Bed) -> CaPair {
    let certificate = bed.mesh.secret_data("identity-root-ca").await;
    let key = bed.mesh.secret_data("identity-private-key").await;
    CaPair::from_pem(certificate.as_bytes(), key.as_bytes()).unwrap()
}

fn leaf(ca: &CaPair, uri: &str, not_before: Timestamp, not_after: Timestamp) -> IssuedLeaf {
    let uris = [uri.to_owned()];
    let spec = LeafSpec {
        purpose: "test",
        subject: "test",
        incarnation: 0,
        epoch: 0,
        usage: LeafUsage::Both,
        not_before,
        not_after,
        uris: &uris,
        dns_names: &[],
        ips: &[],
    };
    ca.issue(&spec).unwrap()
}

/// First line of the answer to a request with this client certificate.
async fn call(inbound: SocketAddr, leaf: &IssuedLeaf) -> Result<String, String> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let certificate = CertificateDer::from_pem_slice(leaf.cert_pem.as_bytes()).unwrap();
    let key = PrivateKeyDer::from_pem_slice(leaf.key_pem.expose().as_bytes()).unwrap();
    let mut config = config
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(AnyServer))
        .with_client_auth_cert(vec![certificate], key)
        .unwrap();
    config.alpn_protocols = vec![b"kuma".to_vec()];
    let exchange = async {
        let connection = TcpStream::connect(inbound).await.map_err(|error| error.to_string())?;
        let name = ServerName::try_from("api").unwrap();
        let connector = TlsConnector::from(Arc::new(config));
        let mut tls = connector.connect(name, connection).await.map_err(|error| error.to_string())?;
        tls.write_all(b"GET / HTTP/1.1\r\nhost: api\r\nconnection: close\r\n\r\n")
            .await
            .map_err(|error| error.to_string())?;
        let mut answer = vec![0; 64];
        let read = tls.read(&mut answer).await.map_err(|error| error.to_string())?;
        let text = String::from_utf8_lossy(&answer[..read]).into_owned();
        if text.is_empty() { Err("the connection was closed".to_owned()) } else { Ok(text) }
    };
    tokio::time::timeout(Duration::from_secs(10), exchange).await.map_err(|_| "no answer".to_owned())?
}

/// The test is about the other side.
#[derive(Debug)]
struct AnyServer;

impl ServerCertVerifier for AnyServer {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ECDSA_NISTP256_SHA256, SignatureScheme::RSA_PSS_SHA256]
    }
}
