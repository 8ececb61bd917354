//! Leaf certificates of a CA. The same request gives the same leaf, on every machine and after every restart.
//!
//! Nothing is random but the signature of an ECDSA CA, so leaves need not be stored, and a restart of the control plane
//! sends no new ones to proxies.

use std::fmt;
use std::net::IpAddr;

use aws_lc_rs::digest;
use jiff::Timestamp;
use rcgen::{DistinguishedName, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyUsagePurpose, SanType, SerialNumber};
use rustls_pki_types::CertificateDer;
use x509_parser::prelude::{FromDer as _, X509Certificate};

use crate::CryptoError;
use crate::certificate::{ascii, between, dns_name, make};
use crate::derived_key::{derived_key, joined};
use crate::fingerprint::{fingerprint, hex};
use crate::pem::{self, PrivatePem};

/// Longest serial number, by RFC 5280, section 4.1.2.2.
const SERIAL_BYTES: usize = 20;

/// A CA that can sign: its certificate and key, and further trusted certificates.
pub struct CaPair {
    certificates: Vec<CertificateDer<'static>>,
    issuer: Issuer<'static, rcgen::KeyPair>,
    not_before: Timestamp,
    not_after: Timestamp,
}

/// The content of a leaf. All of it shapes the serial number, and all but the validity shapes the key: another identity
/// never gets the same key. See [ADR 008](../../../../docs/adr/008-leaf-keys-are-bound-to-the-identity.md).
#[derive(Clone, Copy, Debug)]
pub struct LeafSpec<'a> {
    /// Separates the keys of different purposes.
    pub purpose: &'a str,
    /// Subject of the leaf.
    pub subject: &'a str,
    /// Distinguishes subjects that had the same name one after the other: microseconds of the creation.
    pub incarnation: i64,
    /// A new number is a new key.
    pub epoch: u64,
    pub usage: LeafUsage,
    pub not_before: Timestamp,
    pub not_after: Timestamp,
    pub uris: &'a [String],
    pub dns_names: &'a [String],
    pub ips: &'a [IpAddr],
}

/// Side of a connection on which a leaf is valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeafUsage {
    Server,
    Client,
    Both,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IssuedLeaf {
    /// The leaf alone: the verifier has the CA already.
    pub cert_pem: String,
    pub key_pem: PrivatePem,
    /// Serial number, in hex.
    pub serial: String,
}

impl LeafSpec<'_> {
    /// The identity of the holder of a leaf.
    fn identity(&self) -> [Vec<u8>; 8] {
        let Self { purpose, subject, incarnation, epoch, usage, not_before: _, not_after: _, uris, dns_names, ips } =
            self;
        let names = |names: &[String]| joined(&names.iter().map(String::as_bytes).collect::<Vec<_>>());
        let ips: Vec<String> = ips.iter().map(ToString::to_string).collect();
        let usage = match usage {
            LeafUsage::Server => 1,
            LeafUsage::Client => 2,
            LeafUsage::Both => 3,
        };
        [
            purpose.as_bytes().to_vec(),
            subject.as_bytes().to_vec(),
            incarnation.to_be_bytes().to_vec(),
            epoch.to_be_bytes().to_vec(),
            vec![usage],
            names(uris),
            names(dns_names),
            names(&ips),
        ]
    }
}

impl CaPair {
    /// Reads the certificates and the key. The key belongs to the first certificate.
    pub fn from_pem(cert_pem: &[u8], key_pem: &[u8]) -> Result<Self, CryptoError> {
        let certificates = pem::certificates(cert_pem)?;
        let signer = rcgen::KeyPair::try_from(&pem::private_key(key_pem)?).map_err(|_| CryptoError::CaKey)?;
        let first = &certificates[0];
        let (_, parsed) = X509Certificate::from_der(first).map_err(|_| CryptoError::CaCertificate)?;
        if parsed.tbs_certificate.subject_pki.subject_public_key.data.as_ref() != signer.public_key_raw() {
            return Err(CryptoError::CaMismatch);
        }
        let at = |seconds| Timestamp::from_second(seconds).map_err(|_| CryptoError::Validity);
        let not_before = at(parsed.validity().not_before.timestamp())?;
        let not_after = at(parsed.validity().not_after.timestamp())?;
        let issuer = Issuer::from_ca_cert_der(first, signer).map_err(|_| CryptoError::CaCertificate)?;
        Ok(Self { certificates, issuer, not_before, not_after })
    }

    /// All certificates and nothing else, even if the text they were read from held the key too.
    pub fn roots_pem(&self) -> String {
        self.certificates.iter().map(|der| pem::encode("CERTIFICATE", der)).collect()
    }

    /// The DER of the certificate that signs.
    pub fn certificate(&self) -> &[u8] {
        &self.certificates[0]
    }

    /// SHA-256 of the certificate that signs, in hex.
    pub fn fingerprint(&self) -> String {
        fingerprint(self.certificate())
    }

    /// SHA-256 of all certificates, in hex. It never equals the fingerprint of a single one.
    pub fn bundle_fingerprint(&self) -> String {
        let certificates = self.certificates.iter().map(AsRef::as_ref);
        fingerprint(&[b"CA bundle".as_slice()].into_iter().chain(certificates).collect::<Vec<_>>().concat())
    }

    /// Whether the certificate that signs is a root of its own.
    pub fn is_self_signed(&self) -> bool {
        X509Certificate::from_der(self.certificate()).is_ok_and(|(_, ca)| is_issued_by(&ca, &ca))
    }

    /// Certificates between a leaf and its root, as PEM: verifiers may have the root alone.
    pub fn intermediates_pem(&self) -> String {
        let is_root = |der: &&CertificateDer<'_>| {
            X509Certificate::from_der(der).is_ok_and(|(_, certificate)| is_issued_by(&certificate, &certificate))
        };
        let intermediates = self.certificates.iter().filter(|der| !is_root(der));
        intermediates.map(|der| pem::encode("CERTIFICATE", der)).collect()
    }

    /// Whether verifiers that trust these certificates accept its leaves: one of them is the CA or a certificate above it.
    pub fn is_trusted_by(&self, trusted: &[CertificateDer<'_>]) -> bool {
        let mut at = &self.certificates[0];
        // A chain is at most as long as the list.
        for _ in &self.certificates {
            let Ok((_, certificate)) = X509Certificate::from_der(at) else { return false };
            let issues = |candidate: &&CertificateDer<'_>| {
                X509Certificate::from_der(candidate).is_ok_and(|(_, ca)| is_issued_by(&certificate, &ca))
            };
            if trusted.iter().any(|root| root.as_ref() == at.as_ref() || issues(&root)) {
                return true;
            }
            let Some(above) = self.certificates.iter().find(issues) else { return false };
            at = above;
        }
        false
    }

    pub fn not_before(&self) -> Timestamp {
        self.not_before
    }

    pub fn not_after(&self) -> Timestamp {
        self.not_after
    }

    pub fn issue(&self, spec: &LeafSpec<'_>) -> Result<IssuedLeaf, CryptoError> {
        let LeafSpec { not_before, not_after, uris, dns_names, ips, usage, .. } = spec;
        let identity = spec.identity();
        let identity: Vec<&[u8]> = identity.iter().map(Vec::as_slice).collect();
        let key = derived_key(self.issuer.key().serialized_der(), &identity)?;

        let mut params = between(*not_before, *not_after)?;
        params.distinguished_name = DistinguishedName::new();
        for uri in *uris {
            params.subject_alt_names.push(SanType::URI(ascii(uri)?));
        }
        for name in *dns_names {
            params.subject_alt_names.push(dns_name(name)?);
        }
        params.subject_alt_names.extend(ips.iter().copied().map(SanType::IpAddress));
        if params.subject_alt_names.is_empty() {
            return Err(CryptoError::Nameless);
        }
        params.is_ca = IsCa::ExplicitNoCa;
        params.key_usages =
            vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyEncipherment, KeyUsagePurpose::KeyAgreement];
        params.extended_key_usages = match usage {
            LeafUsage::Server => vec![ExtendedKeyUsagePurpose::ServerAuth],
            LeafUsage::Client => vec![ExtendedKeyUsagePurpose::ClientAuth],
            LeafUsage::Both => vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth],
        };
        // All builtin CAs of a mesh have one subject; by this a verifier that trusts two of them finds the right one.
        params.use_authority_key_identifier_extension = true;
        let serial = self.serial(spec);
        params.serial_number = Some(SerialNumber::from_slice(&serial));

        let leaf = params.signed_by(&key, &self.issuer).map_err(make)?;
        self.check_issuer(leaf.der())?;
        let key_pem = PrivatePem::new(pem::encode("PRIVATE KEY", key.serialized_der()));
        let serial = hex(&serial);
        Ok(IssuedLeaf { cert_pem: pem::encode("CERTIFICATE", leaf.der()), key_pem, serial })
    }

    /// Hash of the content of the leaf, and of its issuer.
    fn serial(&self, spec: &LeafSpec<'_>) -> [u8; SERIAL_BYTES] {
        let (from, until) = (spec.not_before.as_second().to_be_bytes(), spec.not_after.as_second().to_be_bytes());
        let identity = spec.identity();
        let identity = identity.iter().map(Vec::as_slice);
        let words: Vec<&[u8]> = [self.certificate(), &from, &until].into_iter().chain(identity).collect();
        let words = joined(&words);
        let hash = digest::digest(&digest::SHA256, &words);
        let mut serial = [0; SERIAL_BYTES];
        serial.copy_from_slice(&hash.as_ref()[..SERIAL_BYTES]);
        // Positive and of full length: the highest bit is clear, the next one is set.
        serial[0] = serial[0] & 0x7f | 0x40;
        serial
    }

    /// rcgen encodes the name of the issuer again, and loses a repeated attribute. No verifier would find the issuer.
    fn check_issuer(&self, leaf: &CertificateDer<'_>) -> Result<(), CryptoError> {
        let read = |der| X509Certificate::from_der(der).map_err(|_| CryptoError::CaCertificate);
        let ((_, leaf), (_, ca)) = (read(leaf)?, read(self.certificate())?);
        if leaf.issuer().as_raw() == ca.subject().as_raw() { Ok(()) } else { Err(CryptoError::CaSubject) }
    }
}

fn is_issued_by(certificate: &X509Certificate<'_>, ca: &X509Certificate<'_>) -> bool {
    certificate.issuer().as_raw() == ca.subject().as_raw()
        && certificate.verify_signature(Some(ca.public_key())).is_ok()
}

impl fmt::Debug for CaPair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}
