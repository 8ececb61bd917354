//! Certificates as a mesh issues them, and callers that show them.

use std::io::{BufRead as _, BufReader, ErrorKind, Read as _, Write as _};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use rcgen::{BasicConstraints, CertificateParams, DistinguishedName, IsCa, Issuer, KeyPair, SanType};
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use super::samples::SERVERS;

/// Far more than it takes; without it a fault would hang the test.
const PATIENCE: Duration = Duration::from_secs(30);

pub(super) struct Authority {
    root: rcgen::Certificate,
    issuer: Issuer<'static, KeyPair>,
}

/// As PEM.
pub(super) struct Server {
    pub(super) root: String,
    pub(super) certificate: String,
    pub(super) key: String,
}

impl Authority {
    pub(super) fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let root = params.self_signed(&key).unwrap();
        Self { root, issuer: Issuer::new(params, key) }
    }

    /// For the servers that callers ask for, and for those that come without a name.
    pub(super) fn server(&self) -> Server {
        let names: Vec<String> = SERVERS.iter().copied().chain(["127.0.0.1"]).map(str::to_owned).collect();
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::new(names).unwrap().signed_by(&key, &self.issuer).unwrap();
        Server { root: self.root.pem(), certificate: certificate.pem(), key: key.serialize_pem() }
    }

    /// A caller with a certificate of these URIs, in this order.
    pub(super) fn client(&self, uris: &[String]) -> Client {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        // Without a subject, or it would have that of the root and be taken for its own issuer.
        params.distinguished_name = DistinguishedName::new();
        params.subject_alt_names = uris.iter().map(|uri| SanType::URI(uri.as_str().try_into().unwrap())).collect();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(self.root.der().clone()).unwrap();
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_client_auth_cert(vec![certificate.der().clone()], key)
            .unwrap();
        Client(Arc::new(config))
    }
}

pub(super) struct Client(Arc<ClientConfig>);

impl Client {
    fn connect(&self, address: &str, sni: Option<&'static str>) -> StreamOwned<ClientConnection, TcpStream> {
        let socket = TcpStream::connect(address).unwrap();
        socket.set_nodelay(true).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        // An address is not sent as a server name.
        let name = ServerName::try_from(sni.unwrap_or("127.0.0.1")).unwrap();
        StreamOwned::new(ClientConnection::new(Arc::clone(&self.0), name).unwrap(), socket)
    }

    /// The status of a request, and what stands in the answer.
    pub(super) fn get(&self, address: &str, sni: Option<&'static str>) -> (u16, String) {
        let mut stream = self.connect(address, sni);
        stream.write_all(b"GET / HTTP/1.1\r\nHost: inbound\r\n\r\n").unwrap();
        let mut answer = BufReader::new(stream);
        let mut line = || {
            let mut line = String::new();
            answer.read_line(&mut line).unwrap();
            line.trim_end().to_owned()
        };
        let status = line().split(' ').nth(1).and_then(|status| status.parse().ok()).expect("it speaks HTTP");
        let headers: Vec<String> = std::iter::repeat_with(&mut line).take_while(|line| !line.is_empty()).collect();
        // Not to the end of the connection: Envoy waits before it closes one.
        let length = headers.iter().find_map(|line| line.strip_prefix("content-length: ")).unwrap_or("0");
        let mut body = vec![0; length.parse().unwrap()];
        answer.read_exact(&mut body).unwrap();
        (status, String::from_utf8(body).unwrap())
    }

    /// Whether what is sent comes back; otherwise the connection is closed.
    pub(super) fn echoes(&self, address: &str, sni: Option<&'static str>) -> bool {
        let mut stream = self.connect(address, sni);
        stream.write_all(b"ping").unwrap();
        let mut answer = [0; 4];
        match stream.read_exact(&mut answer) {
            Ok(()) => answer == *b"ping",
            Err(error) => {
                let kind = error.kind();
                assert_ne!(kind, ErrorKind::WouldBlock, "neither an answer nor an end after {PATIENCE:?}");
                false
            }
        }
    }
}
