//! Whole handshakes in memory: what is agreed on, and who is let in.

use std::sync::Arc;

use rcgen::{CertificateParams, ExtendedKeyUsagePurpose, Issuer, SanType};
use rustls::version::{TLS12, TLS13};
use rustls::{
    ClientConfig, ClientConnection, ProtocolVersion, RootCertStore, ServerConfig, ServerConnection,
    SupportedProtocolVersion,
};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName};

use super::{DAY, made};
use crate::tls::provider;
use crate::{ClientCa, CryptoError, KeyPair, ServerCertParams, client_config, pem, self_signed_server, server_config};

type Identity = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

fn server_pair() -> KeyPair {
    // The verifiers inside a handshake read the real clock, so this certificate must be valid today.
    let now = jiff::Timestamp::now();
    self_signed_server(&ServerCertParams { hostnames: &[], ips: &[], valid_for: DAY, now }).unwrap()
}

fn identity_of(ca: &KeyPair) -> Identity {
    let issuer =
        Issuer::from_ca_cert_pem(&ca.cert_pem, rcgen::KeyPair::from_pem(ca.key_pem.expose()).unwrap()).unwrap();
    let mut params = CertificateParams::default();
    params.subject_alt_names = vec![SanType::DnsName("client".try_into().unwrap())];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    let key = rcgen::KeyPair::generate().unwrap();
    let leaf = params.signed_by(&key, &issuer).unwrap();
    (vec![leaf.der().clone()], pem::private_key(key.serialize_pem().as_bytes()).unwrap())
}

/// Runs a handshake to its end and gives the version and protocol that were agreed on.
fn handshake(
    server: Arc<ServerConfig>,
    trusted: &KeyPair,
    version: &'static SupportedProtocolVersion,
    identity: Option<Identity>,
) -> Result<(ProtocolVersion, Vec<u8>), rustls::Error> {
    let mut roots = RootCertStore::empty();
    roots.add(pem::certificates(trusted.cert_pem.as_bytes()).unwrap().remove(0)).unwrap();
    let builder = ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[version])
        .unwrap()
        .with_root_certificates(roots);
    let mut config = match identity {
        Some((chain, key)) => builder.with_client_auth_cert(chain, key).unwrap(),
        None => builder.with_no_client_auth(),
    };
    config.alpn_protocols = vec![b"http/1.1".to_vec(), b"h2".to_vec()];
    let mut client = ClientConnection::new(Arc::new(config), ServerName::try_from("localhost").unwrap()).unwrap();
    let mut server = ServerConnection::new(server).unwrap();
    while client.wants_write() || server.wants_write() {
        let mut bytes = Vec::new();
        client.write_tls(&mut bytes).unwrap();
        server.read_tls(&mut bytes.as_slice()).unwrap();
        server.process_new_packets()?;
        let mut bytes = Vec::new();
        server.write_tls(&mut bytes).unwrap();
        client.read_tls(&mut bytes.as_slice()).unwrap();
        client.process_new_packets()?;
    }
    assert!(!client.is_handshaking() && !server.is_handshaking());
    Ok((server.protocol_version().unwrap(), server.alpn_protocol().unwrap().to_vec()))
}

fn config(pair: &KeyPair, client_ca: Option<ClientCa<'_>>) -> Arc<ServerConfig> {
    server_config(pair.cert_pem.as_bytes(), pair.key_pem.expose().as_bytes(), client_ca).unwrap()
}

#[test]
fn http2_is_preferred_over_both_versions() {
    let pair = server_pair();
    for (version, agreed) in [(&TLS13, ProtocolVersion::TLSv1_3), (&TLS12, ProtocolVersion::TLSv1_2)] {
        let answer = handshake(config(&pair, None), &pair, version, None).unwrap();
        assert_eq!(answer, (agreed, b"h2".to_vec()));
    }
}

#[test]
fn client_certificates_are_asked_for_as_told() {
    // Both CAs have the same name, so only the signature tells them apart.
    let (pair, ca, stranger) = (server_pair(), made(|_| ()), made(|_| ()));
    let ca_pem = ca.cert_pem.as_bytes();
    let connect = |client_ca, identity| handshake(config(&pair, Some(client_ca)), &pair, &TLS13, identity).is_ok();
    assert!(connect(ClientCa::Optional(ca_pem), None));
    assert!(connect(ClientCa::Optional(ca_pem), Some(identity_of(&ca))));
    assert!(!connect(ClientCa::Optional(ca_pem), Some(identity_of(&stranger))));
    assert!(!connect(ClientCa::Required(ca_pem), None));
    assert!(connect(ClientCa::Required(ca_pem), Some(identity_of(&ca))));
    assert!(!connect(ClientCa::Required(ca_pem), Some(identity_of(&stranger))));
}

#[test]
fn what_cannot_work_is_refused_at_once() {
    let (pair, other) = (server_pair(), server_pair());
    let (cert, key) = (pair.cert_pem.as_bytes(), pair.key_pem.expose().as_bytes());
    let mixed = server_config(cert, other.key_pem.expose().as_bytes(), None);
    assert!(matches!(mixed, Err(CryptoError::Tls { .. })));
    assert!(matches!(server_config(b"", key, None), Err(CryptoError::PemEmpty("certificate"))));
    assert!(matches!(server_config(cert, b"", None), Err(CryptoError::PemEmpty("private key"))));
    assert!(matches!(client_config(b""), Err(CryptoError::PemEmpty("certificate"))));
    let no_ca = server_config(cert, key, Some(ClientCa::Required(b"")));
    assert!(matches!(no_ca, Err(CryptoError::PemEmpty("certificate"))));
}
