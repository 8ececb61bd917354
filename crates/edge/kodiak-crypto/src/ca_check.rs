//! Validation of a certificate and key that a user provides as the CA of a mesh.
//!
//! Every fault is reported, with the index of its certificate in the file: all of them become trusted roots, so all of them
//! must be CAs. The texts are Kuma's, where it has one.

use std::fmt;

use jiff::Timestamp;
use rustls::crypto::aws_lc_rs::sign::any_supported_type;
use rustls_pki_types::CertificateDer;
use x509_parser::prelude::{FromDer as _, KeyUsage, X509Certificate};

use crate::CryptoError;
use crate::pem;

/// One fault, and the certificate it is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CaProblem {
    /// Index of the certificate in the file; `None` for a fault of the pair as a whole.
    pub index: Option<usize>,
    pub fault: CaFault,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CaFault {
    #[error("not a valid TLS key pair: {0}")]
    Pair(PairFault),
    #[error("cannot be read: {0}")]
    Unreadable(String),
    #[error("not a valid x509 certificate")]
    NotX509,
    #[error("basic constraint 'CA' must be set to 'true' (see X509-SVID: 4.1. Basic Constraints)")]
    NotCa,
    #[error("key usage extension 'keyCertSign' must be set (see X509-SVID: 4.3. Key Usage)")]
    NoCertSign,
    #[error("key usage extension 'keyAgreement' must NOT be set (see X509-SVID: Appendix A. X.509 Field Reference)")]
    KeyAgreement,
    #[error("the certificate is not valid before {0}")]
    NotYetValid(Timestamp),
    #[error("the certificate expired at {0}; provide one that is valid")]
    Expired(Timestamp),
}

/// Why certificate and key are not a pair. Texts of Go's `tls` package, which users of Kuma know.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PairFault {
    #[error("tls: failed to find any PEM data in certificate input")]
    NoCertificate,
    #[error("tls: failed to find any PEM data in key input")]
    NoKey,
    #[error("tls: failed to parse private key")]
    BadKey,
    #[error("tls: private key does not match public key")]
    Mismatch,
    #[error("tls: the input is too long")]
    TooLong,
}

impl CaProblem {
    /// The path below the backend's `conf`: `cert` or `cert[1]`.
    pub fn field(&self) -> String {
        self.index.map_or_else(|| "cert".to_owned(), |index| format!("cert[{index}]"))
    }
}

impl fmt::Display for CaProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.fault.fmt(f)
    }
}

/// The faults of a CA pair; none if it can be used.
pub fn check_ca_pair(cert_pem: &[u8], key_pem: &[u8], now: Timestamp) -> Vec<CaProblem> {
    let mut problems = Vec::new();
    let spki = match public_half(key_pem) {
        Ok(spki) => Some(spki),
        Err(fault) => {
            problems.push(of_pair(fault));
            None
        }
    };
    let chain = match pem::certificates(cert_pem) {
        Ok(chain) => chain,
        Err(error) => {
            problems.insert(0, of_pair(certificate_fault(&error)));
            return problems;
        }
    };
    for (index, der) in chain.iter().enumerate() {
        check_certificate(index, der, spki.as_deref(), now, &mut problems);
    }
    problems
}

/// The faults of certificates that are to be trusted; none if proxies accept them. They may have expired.
pub fn check_trusted(pem: &[u8]) -> Vec<CaProblem> {
    match pem::certificates(pem) {
        Ok(chain) => chain.iter().enumerate().filter_map(|(index, der)| trusted_fault(index, der)).collect(),
        Err(error) => vec![CaProblem { index: None, fault: CaFault::Unreadable(error.to_string()) }],
    }
}

/// The certificates of a text that proxies accept as trusted CAs, and the faults of the others.
pub fn trusted_certificates(pem: &[u8]) -> (Vec<CertificateDer<'static>>, Vec<CaProblem>) {
    let Ok(mut chain) = pem::certificates(pem) else { return (Vec::new(), check_trusted(pem)) };
    let problems = check_trusted(pem);
    let faulty = |index: usize| problems.iter().any(|problem| problem.index == Some(index));
    let mut index = 0;
    chain.retain(|_| {
        index += 1;
        !faulty(index - 1)
    });
    (chain, problems)
}

fn trusted_fault(index: usize, der: &CertificateDer<'_>) -> Option<CaProblem> {
    let fault = match X509Certificate::from_der(der) {
        Ok(([], certificate)) if is_ca(&certificate) => return None,
        Ok(([], _)) => CaFault::NotCa,
        Ok(_) | Err(_) => CaFault::NotX509,
    };
    Some(CaProblem { index: Some(index), fault })
}

/// An invalid extension counts as absent.
fn is_ca(certificate: &X509Certificate<'_>) -> bool {
    certificate.basic_constraints().ok().flatten().is_some_and(|basic| basic.value.ca)
}

fn check_certificate(
    index: usize,
    der: &CertificateDer<'_>,
    spki: Option<&[u8]>,
    now: Timestamp,
    problems: &mut Vec<CaProblem>,
) {
    let mut add = |fault| problems.push(CaProblem { index: Some(index), fault });
    let Ok((_, certificate)) = X509Certificate::from_der(der) else {
        add(CaFault::NotX509);
        return;
    };
    if !is_ca(&certificate) {
        add(CaFault::NotCa);
    }
    let usage = certificate.key_usage().ok().flatten().map(|usage| usage.value);
    if !usage.is_some_and(KeyUsage::key_cert_sign) {
        add(CaFault::NoCertSign);
    }
    if usage.is_some_and(KeyUsage::key_agreement) {
        add(CaFault::KeyAgreement);
    }
    let validity = certificate.validity();
    if let Some(from) = timestamp(validity.not_before.timestamp()).filter(|from| now < *from) {
        add(CaFault::NotYetValid(from));
    }
    if let Some(until) = timestamp(validity.not_after.timestamp()).filter(|until| *until < now) {
        add(CaFault::Expired(until));
    }
    // Only the first certificate belongs to the key; the others are additional trusted roots.
    if index == 0 && spki.is_some_and(|spki| spki != certificate.tbs_certificate.subject_pki.raw) {
        problems.push(of_pair(PairFault::Mismatch));
    }
}

/// Whether a private key and the first of these certificates are known not to belong together. What cannot be read, such as
/// a key of an unsupported type, is not known.
pub fn is_mismatch(cert_pem: &[u8], key_pem: &[u8]) -> bool {
    let Ok(chain) = pem::certificates(cert_pem) else { return false };
    let (Some(first), Ok(spki)) = (chain.first(), public_half(key_pem)) else { return false };
    X509Certificate::from_der(first).is_ok_and(|(_, certificate)| spki != certificate.tbs_certificate.subject_pki.raw)
}

/// The `SubjectPublicKeyInfo` that a certificate of this key must have.
fn public_half(key_pem: &[u8]) -> Result<Vec<u8>, PairFault> {
    let key = pem::private_key(key_pem).map_err(|error| key_fault(&error))?;
    let key = any_supported_type(&key).map_err(|_| PairFault::BadKey)?;
    key.public_key().map(|spki| spki.as_ref().to_vec()).ok_or(PairFault::BadKey)
}

fn of_pair(fault: PairFault) -> CaProblem {
    CaProblem { index: None, fault: CaFault::Pair(fault) }
}

fn certificate_fault(error: &CryptoError) -> PairFault {
    if matches!(error, CryptoError::PemTooLong) { PairFault::TooLong } else { PairFault::NoCertificate }
}

fn key_fault(error: &CryptoError) -> PairFault {
    if matches!(error, CryptoError::PemTooLong) { PairFault::TooLong } else { PairFault::NoKey }
}

/// Later years count as the year 9999, the last one of X.509.
fn timestamp(seconds: i64) -> Option<Timestamp> {
    Timestamp::from_second(seconds).ok()
}
