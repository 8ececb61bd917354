//! New certificates, as the verifiers of rustls see them.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use rcgen::{CertificateParams, ExtendedKeyUsagePurpose, Issuer, SanType};
use rustls::RootCertStore;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier as _;
use rustls::server::WebPkiClientVerifier;
use rustls_pki_types::{CertificateDer, ServerName};
use x509_parser::prelude::{FromDer as _, GeneralName, X509Certificate};

use super::{DAY, now, root, unix};
use crate::tls::provider;
use crate::{
    CaKeyType, CryptoError, KeyPair, RootCaParams, RsaBits, ServerCertParams, pem, root_ca, self_signed_server,
};

fn der(pair: &KeyPair) -> CertificateDer<'static> {
    pem::certificates(pair.cert_pem.as_bytes()).unwrap().remove(0)
}

fn roots(pair: &KeyPair) -> Arc<RootCertStore> {
    let mut roots = RootCertStore::empty();
    roots.add(der(pair)).unwrap();
    Arc::new(roots)
}

/// A certificate for a proxy, signed by the root as it is read back from a secret.
fn leaf(ca: &KeyPair) -> CertificateDer<'static> {
    let ca_key = rcgen::KeyPair::from_pem(ca.key_pem.expose()).unwrap();
    let issuer = Issuer::from_ca_cert_pem(&ca.cert_pem, ca_key).unwrap();
    let mut params = CertificateParams::default();
    params.subject_alt_names = vec![SanType::URI("spiffe://default/backend".try_into().unwrap())];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    let key = rcgen::KeyPair::generate().unwrap();
    params.signed_by(&key, &issuer).unwrap().der().clone()
}

#[test]
fn leaf_is_verified_only_by_its_root() {
    let leaf = leaf(root());
    let verify = |ca: &KeyPair, at| {
        let verifier = WebPkiClientVerifier::builder_with_provider(roots(ca), provider()).build().unwrap();
        verifier.verify_client_cert(&leaf, &[], unix(at)).map(drop)
    };
    verify(root(), now()).unwrap();
    let other = super::made(|_| ());
    verify(&other, now()).unwrap_err();
}

#[test]
fn root_has_the_constraints_of_a_ca() {
    let der = der(root());
    let (_, certificate) = X509Certificate::from_der(&der).unwrap();
    assert_eq!(certificate.subject().to_string(), "O=Kodiak, OU=Mesh, CN=default");
    let basic = certificate.basic_constraints().unwrap().unwrap();
    assert!(basic.critical && basic.value.ca);
    let usage = certificate.key_usage().unwrap().unwrap();
    assert!(usage.critical);
    assert_eq!(usage.value.to_string(), "Key Cert Sign, CRL Sign");
    let names = &certificate.subject_alternative_name().unwrap().unwrap().value.general_names;
    assert_eq!(names, &[GeneralName::URI("spiffe://default")]);
    assert_eq!(certificate.validity().not_before.timestamp(), now().as_second() - 10);
    assert_eq!(certificate.validity().not_after.timestamp(), now().as_second() + 3650 * 24 * 3600);
}

#[test]
fn server_certificate_is_valid_only_for_its_sans() {
    let address: IpAddr = "192.0.2.7".parse().unwrap();
    let pair = self_signed_server(&ServerCertParams {
        hostnames: &["cp.example.com", "localhost"],
        ips: &[address, "::1".parse().unwrap()],
        valid_for: 365 * DAY,
        now: now(),
    })
    .unwrap();
    let verifier = WebPkiServerVerifier::builder_with_provider(roots(&pair), provider()).build().unwrap();
    let verify = |name: &str, at| {
        let name = ServerName::try_from(name.to_owned()).unwrap();
        verifier.verify_server_cert(&der(&pair), &[], &name, &[], unix(at)).is_ok()
    };
    for good in ["cp.example.com", "localhost", "192.0.2.7", "::1"] {
        assert!(verify(good, now()), "{good}");
    }
    for bad in ["example.com", "192.0.2.8"] {
        assert!(!verify(bad, now()), "{bad}");
    }
    assert!(!verify("localhost", now() + 366 * DAY), "expired");
}

#[test]
fn invalid_names_and_times_are_rejected() {
    for name in ["", "a b", "ä.example.com", "a..b"] {
        let made = self_signed_server(&ServerCertParams { hostnames: &[name], ips: &[], valid_for: DAY, now: now() });
        assert!(matches!(made, Err(CryptoError::Name(_))), "{name:?}");
    }
    let root = |expires_after, uri_san| {
        root_ca(&RootCaParams {
            common_name: "x",
            expires_after,
            key: CaKeyType::Rsa(RsaBits::B2048),
            uri_san,
            now: now(),
        })
    };
    assert!(matches!(root(DAY, Some("spiffe://ü")), Err(CryptoError::Name(_))));
    assert!(matches!(root(Duration::MAX, None), Err(CryptoError::Validity)));
    assert!(matches!(root(10_000 * 365 * DAY, None), Err(CryptoError::Validity)));
}
