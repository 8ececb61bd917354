//! Every fault of a provided CA, with the place it is reported at.

use rcgen::{IsCa, KeyUsagePurpose, date_time_ymd};

use super::{made, now, root};
use crate::check_ca_pair;

#[track_caller]
fn check(cert_pem: &str, key_pem: &str, expected: &[&str]) {
    let problems: Vec<_> = check_ca_pair(cert_pem.as_bytes(), key_pem.as_bytes(), now())
        .iter()
        .map(|problem| format!("{}: {problem}", problem.field()))
        .collect();
    assert_eq!(problems, expected);
}

#[test]
fn our_own_root_and_an_ecdsa_root_are_fit() {
    check(&root().cert_pem, root().key_pem.expose(), &[]);
    let ecdsa = made(|_| ());
    check(&ecdsa.cert_pem, ecdsa.key_pem.expose(), &[]);
}

#[test]
fn other_roots_may_follow_the_first() {
    let both = format!("{}{}", root().cert_pem, made(|_| ()).cert_pem);
    check(&both, root().key_pem.expose(), &[]);
}

#[test]
fn a_pair_that_is_none_says_why() {
    let pair = made(|_| ());
    let (cert, key) = (pair.cert_pem.as_str(), pair.key_pem.expose());
    let no_cert = "cert: not a valid TLS key pair: tls: failed to find any PEM data in certificate input";
    let no_key = "cert: not a valid TLS key pair: tls: failed to find any PEM data in key input";
    let bad_key = "cert: not a valid TLS key pair: tls: failed to parse private key";
    let mismatch = "cert: not a valid TLS key pair: tls: private key does not match public key";
    check("", "", &[no_cert, no_key]);
    check("CERT", key, &[no_cert]);
    check(cert, "KEY", &[no_key]);
    check(cert, cert, &[no_key]);
    check(cert, &crate::pem::encode("PRIVATE KEY", b"nonsense"), &[bad_key]);
    check(cert, root().key_pem.expose(), &[mismatch]);
    check(&root().cert_pem, key, &[mismatch]);
}

#[test]
fn each_certificate_answers_for_itself() {
    let leaf = made(|params| {
        params.is_ca = IsCa::NoCa;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyAgreement];
    });
    let not_ca = "basic constraint 'CA' must be set to 'true' (see X509-SVID: 4.1. Basic Constraints)";
    let no_sign = "key usage extension 'keyCertSign' must be set (see X509-SVID: 4.3. Key Usage)";
    let agreement =
        "key usage extension 'keyAgreement' must NOT be set (see X509-SVID: Appendix A. X.509 Field Reference)";
    check(
        &format!("{}{}", root().cert_pem, leaf.cert_pem),
        root().key_pem.expose(),
        &[&format!("cert[1]: {not_ca}"), &format!("cert[1]: {no_sign}"), &format!("cert[1]: {agreement}")],
    );
    let bare = made(|params| params.key_usages.clear());
    check(&bare.cert_pem, bare.key_pem.expose(), &[&format!("cert[0]: {no_sign}")]);
}

#[test]
fn the_time_must_be_right() {
    let old = made(|params| params.not_after = date_time_ymd(2026, 8, 1));
    let expired = "cert[0]: the certificate expired at 2026-08-01T00:00:00Z; provide one that is valid";
    check(&old.cert_pem, old.key_pem.expose(), &[expired]);
    let new = made(|params| params.not_before = date_time_ymd(2026, 8, 2));
    let early = "cert[0]: the certificate is not valid before 2026-08-02T00:00:00Z";
    check(&new.cert_pem, new.key_pem.expose(), &[early]);
}

#[test]
fn a_block_that_is_no_certificate_is_named() {
    let nonsense = crate::pem::encode("CERTIFICATE", b"nonsense");
    let both = format!("{}{nonsense}", root().cert_pem);
    check(&both, root().key_pem.expose(), &["cert[1]: not a valid x509 certificate"]);
}
