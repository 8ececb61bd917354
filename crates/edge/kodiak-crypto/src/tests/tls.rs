//! Whole handshakes in memory: negotiated versions, and accepted clients.

use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, Issuer, SanType};
use rustls::version::{TLS12, TLS13};
use rustls::{
    ClientConfig, ClientConnection, ProtocolVersion, RootCertStore, ServerConfig, ServerConnection,
    SupportedProtocolVersion,
};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName};

use super::{DAY, made};
use crate::tls::provider;
use crate::{
    ClientCa, CryptoError, KeyPair, PrivatePem, ServerCertParams, client_config, pem, self_signed_server, server_config,
};

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

/// Runs a handshake to its end and returns the negotiated version and protocol.
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
fn client_certificates_are_requested_as_configured() {
    // Both CAs have the same name, so only the signature distinguishes them.
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
fn invalid_tls_settings_are_rejected() {
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

/// Self-signed and marked as a CA, as kuma-cp generates it for itself.
fn server_ca(change: impl FnOnce(&mut CertificateParams)) -> KeyPair {
    let mut params = CertificateParams::new(["localhost".to_owned()]).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    change(&mut params);
    let key = rcgen::KeyPair::generate().unwrap();
    let cert_pem = params.self_signed(&key).unwrap().pem();
    KeyPair { cert_pem, key_pem: PrivatePem::new(key.serialize_pem()) }
}

/// Handshake of a client that has `trusted` as its CA file.
fn connect(server: Arc<ServerConfig>, trusted: &str, name: &'static str) -> Result<(), rustls::Error> {
    let config = client_config(trusted.as_bytes()).unwrap();
    let mut client = ClientConnection::new(Arc::new(config), ServerName::try_from(name).unwrap()).unwrap();
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
    Ok(())
}

#[test]
fn server_certificate_that_is_its_own_ca_is_trusted_byte_for_byte() {
    let (own, other) = (server_ca(|_| ()), server_ca(|_| ()));
    connect(config(&own, None), &own.cert_pem, "localhost").unwrap();
    let bundle = format!("{}{}", other.cert_pem, own.cert_pem);
    connect(config(&own, None), &bundle, "localhost").unwrap();

    let refused = |pair: &KeyPair, trusted: &KeyPair, name| {
        connect(config(pair, None), &trusted.cert_pem, name).unwrap_err().to_string()
    };
    assert!(refused(&own, &own, "example.com").contains("not valid for name"));
    // The same subject and another key.
    refused(&own, &other, "localhost");
    let expired = server_ca(|params| params.not_after = rcgen::date_time_ymd(2020, 1, 1));
    assert!(refused(&expired, &expired, "localhost").contains("Expired"));
    let future = server_ca(|params| params.not_before = rcgen::date_time_ymd(3000, 1, 1));
    assert!(refused(&future, &future, "localhost").contains("NotValidYet"));
    let client_only = server_ca(|params| params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth]);
    assert!(refused(&client_only, &client_only, "localhost").contains("InvalidPurpose"));
}

#[test]
fn certificates_of_a_ca_are_trusted_and_a_ca_that_it_issued_is_none() {
    let ca = server_ca(|params| params.extended_key_usages.clear());
    let issuer =
        Issuer::from_ca_cert_pem(&ca.cert_pem, rcgen::KeyPair::from_pem(ca.key_pem.expose()).unwrap()).unwrap();
    let leaf = |is_ca: IsCa| {
        let mut params = CertificateParams::new(["localhost".to_owned()]).unwrap();
        params.is_ca = is_ca;
        let key = rcgen::KeyPair::generate().unwrap();
        let cert_pem = params.signed_by(&key, &issuer).unwrap().pem();
        KeyPair { cert_pem, key_pem: PrivatePem::new(key.serialize_pem()) }
    };
    connect(config(&leaf(IsCa::NoCa), None), &ca.cert_pem, "localhost").unwrap();
    let intermediate = leaf(IsCa::Ca(BasicConstraints::Unconstrained));
    connect(config(&intermediate, None), &ca.cert_pem, "localhost").unwrap_err();
    connect(config(&server_pair(), None), &ca.cert_pem, "localhost").unwrap_err();
}
