//! Shared by tests: one root, and invalid certificates.
mod ca;
mod certificates;
mod issue;
mod keys;
mod noise;
mod tls;

use std::sync::OnceLock;
use std::time::Duration;

use jiff::Timestamp;
use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyUsagePurpose, PKCS_ECDSA_P256_SHA256};
use rustls_pki_types::UnixTime;

use crate::{CaKeyType, KeyPair, PrivatePem, RootCaParams, RsaBits, root_ca};

const DAY: Duration = Duration::from_hours(24);

fn now() -> Timestamp {
    "2026-08-01T12:00:00Z".parse().unwrap()
}

fn unix(at: Timestamp) -> UnixTime {
    UnixTime::since_unix_epoch(Duration::from_secs(at.as_second().try_into().unwrap()))
}

/// RSA keys are slow to make, so most tests share one.
fn root() -> &'static KeyPair {
    static ROOT: OnceLock<KeyPair> = OnceLock::new();
    ROOT.get_or_init(|| {
        root_ca(&RootCaParams {
            common_name: "default",
            expires_after: 3650 * DAY,
            key: CaKeyType::Rsa(RsaBits::default()),
            uri_san: Some("spiffe://default"),
            now: now(),
        })
        .unwrap()
    })
}

/// A sound ECDSA CA, before `edit` breaks it.
fn made(edit: impl FnOnce(&mut CertificateParams)) -> KeyPair {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    edit(&mut params);
    let key = rcgen::KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).unwrap();
    KeyPair { cert_pem: params.self_signed(&key).unwrap().pem(), key_pem: PrivatePem::new(key.serialize_pem()) }
}
