//! TLS before a workload that is outside of the mesh.

use std::{
    net::{Ipv4Addr, SocketAddr},
    time::Duration,
};

use jiff::Timestamp;
use kodiak_crypto::{CaKeyType, RootCaParams, RsaBits, root_ca, server_config};
use rcgen::{CertificateParams, Issuer, KeyPair};
use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
    task::JoinSet,
};
use tokio_rustls::TlsAcceptor;

use super::workload_address;

pub(crate) struct Tls {
    pub(crate) address: SocketAddr,
    /// PEM of the authority that has signed its certificate.
    pub(crate) authority: String,
    _tasks: JoinSet<()>,
}

impl Tls {
    /// With a certificate for this name.
    pub(crate) async fn start(name: &str, workload: SocketAddr) -> Self {
        Self::start_at(workload_address(), name, workload).await
    }

    /// At a port of this address.
    pub(crate) async fn start_at(address: Ipv4Addr, name: &str, workload: SocketAddr) -> Self {
        let (authority, acceptor) = certify(name);
        let listener = TcpListener::bind((address, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((outside, _)) = listener.accept().await {
                let acceptor = acceptor.clone();
                connections.spawn(async move {
                    // Who does not like the certificate goes away.
                    let Ok(mut outside) = acceptor.accept(outside).await else { return };
                    if let Ok(mut inside) = TcpStream::connect(workload).await {
                        let _ = copy_bidirectional(&mut outside, &mut inside).await;
                    }
                });
            }
        });
        Self { address, authority, _tasks: tasks }
    }
}

fn certify(name: &str) -> (String, TlsAcceptor) {
    let params = RootCaParams {
        common_name: "outside",
        expires_after: Duration::from_hours(24),
        key: CaKeyType::Rsa(RsaBits::B2048),
        uri_san: None,
        now: Timestamp::now(),
    };
    let authority = root_ca(&params).unwrap();
    let signer = KeyPair::from_pem(authority.key_pem.expose()).unwrap();
    let issuer = Issuer::from_ca_cert_pem(&authority.cert_pem, signer).unwrap();
    let key = KeyPair::generate().unwrap();
    let leaf = CertificateParams::new([name.to_owned()]).unwrap().signed_by(&key, &issuer).unwrap();
    let config = server_config(leaf.pem().as_bytes(), key.serialize_pem().as_bytes(), None).unwrap();
    (authority.cert_pem, TlsAcceptor::from(config))
}
