//! Decoding and encoding of PEM.
//!
//! rustls-pki-types decodes, and skips blocks with unknown labels. It does not know `RSA PUBLIC KEY`, which Kuma's tools
//! write, so that label is decoded here.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, SubjectPublicKeyInfoDer};

use crate::CryptoError;

/// Longest PEM text that is decoded, far above any real chain.
pub const MAX_PEM_BYTES: usize = 1024 * 1024;

/// RFC 7468, section 2: writers wrap at 64 characters.
const LINE: usize = 64;

/// A private key as PEM text. It can be stored and passed on, but is never printed by accident.
#[derive(Clone, PartialEq, Eq)]
pub struct PrivatePem(String);

impl PrivatePem {
    pub fn new(pem: String) -> Self {
        Self(pem)
    }

    /// The text itself. The name stands out at the call.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for PrivatePem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// PEM of a certificate.
pub fn certificate_pem(der: &[u8]) -> String {
    encode("CERTIFICATE", der)
}

pub(crate) fn encode(label: &str, der: &[u8]) -> String {
    let body = STANDARD.encode(der);
    let mut pem = format!("-----BEGIN {label}-----\n");
    let mut rest = body.as_str();
    while !rest.is_empty() {
        // Base64 is ASCII, so every index is a character border.
        let (line, tail) = rest.split_at(rest.len().min(LINE));
        pem.push_str(line);
        pem.push('\n');
        rest = tail;
    }
    pem.push_str("-----END ");
    pem.push_str(label);
    pem.push_str("-----\n");
    pem
}

/// Whether the bytes look like PEM; signing keys may also be raw DER.
pub(crate) fn is_pem(bytes: &[u8]) -> bool {
    const MARK: &[u8] = b"-----BEGIN ";
    bytes.windows(MARK.len()).any(|window| window == MARK)
}

/// All certificates of the text, in its order; at least one.
pub fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, CryptoError> {
    bounded(pem)?;
    let chain: Vec<_> =
        CertificateDer::pem_slice_iter(pem).collect::<Result<_, _>>().map_err(|source| CryptoError::Pem { source })?;
    if chain.is_empty() { Err(CryptoError::PemEmpty("certificate")) } else { Ok(chain) }
}

/// The first private key of the text, whatever its kind.
pub(crate) fn private_key(pem: &[u8]) -> Result<PrivateKeyDer<'static>, CryptoError> {
    bounded(pem)?;
    first(PrivateKeyDer::pem_slice_iter(pem).next(), "private key")
}

/// The DER of the first public key: `SubjectPublicKeyInfo` or PKCS1, by the label it came with.
pub(crate) fn public_key(pem: &[u8]) -> Result<Vec<u8>, CryptoError> {
    bounded(pem)?;
    if let Some(pkcs1) = block(pem, "RSA PUBLIC KEY") {
        return Ok(pkcs1);
    }
    first(SubjectPublicKeyInfoDer::pem_slice_iter(pem).next(), "public key").map(|spki| spki.as_ref().to_vec())
}

fn bounded(pem: &[u8]) -> Result<(), CryptoError> {
    if pem.len() > MAX_PEM_BYTES { Err(CryptoError::PemTooLong) } else { Ok(()) }
}

fn first<T>(item: Option<Result<T, rustls_pki_types::pem::Error>>, what: &'static str) -> Result<T, CryptoError> {
    item.ok_or(CryptoError::PemEmpty(what))?.map_err(|source| CryptoError::Pem { source })
}

fn block(pem: &[u8], label: &str) -> Option<Vec<u8>> {
    let text = std::str::from_utf8(pem).ok()?;
    let (_, after) = text.split_once(&format!("-----BEGIN {label}-----"))?;
    let (body, _) = after.split_once(&format!("-----END {label}-----"))?;
    let compact: String = body.chars().filter(|c| !c.is_ascii_whitespace()).collect();
    STANDARD.decode(compact).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_wrapped_and_decoded() {
        for length in [0, 1, 47, 48, 49, 200] {
            let der = vec![7; length];
            let pem = encode("RSA PUBLIC KEY", &der);
            assert!(pem.lines().all(|line| line.len() <= LINE), "{pem}");
            assert_eq!(block(pem.as_bytes(), "RSA PUBLIC KEY"), Some(der));
        }
    }

    #[test]
    fn private_pem_is_not_printed() {
        assert_eq!(format!("{:?}", PrivatePem::new("secret".to_owned())), "***");
    }

    #[test]
    fn long_text_is_rejected_before_decoding() {
        let long = vec![b'-'; MAX_PEM_BYTES + 1];
        assert!(matches!(certificates(&long), Err(CryptoError::PemTooLong)));
        assert!(matches!(private_key(&long), Err(CryptoError::PemTooLong)));
        assert!(matches!(public_key(&long), Err(CryptoError::PemTooLong)));
    }

    #[test]
    fn text_without_blocks_is_rejected_as_empty() {
        assert!(matches!(certificates(b"hello"), Err(CryptoError::PemEmpty("certificate"))));
        assert!(matches!(private_key(b""), Err(CryptoError::PemEmpty("private key"))));
        assert!(matches!(public_key(b"\xff\xfe"), Err(CryptoError::PemEmpty("public key"))));
    }
}
