//! Errors of keys and certificates.
//!
//! The texts never hold key material, so they may be logged and shown to users.

use aws_lc_rs::error::{KeyRejected, Unspecified};

#[derive(Debug, thiserror::Error)]
pub enum CryptoError {
    #[error("failed to generate an RSA key")]
    GenerateKey { source: Unspecified },
    #[error("failed to get random bytes from the system")]
    Random { source: Unspecified },
    #[error("RSA keys of {0} bits are not supported; use 2048, 3072 or 4096")]
    RsaBits(u32),
    #[error("the PEM text is longer than {} bytes", crate::MAX_PEM_BYTES)]
    PemTooLong,
    #[error("the PEM text is malformed")]
    Pem { source: rustls_pki_types::pem::Error },
    #[error("the PEM text has no {0}")]
    PemEmpty(&'static str),
    #[error("the key is not an RSA key")]
    NotRsa,
    #[error("the RSA key is shorter than 2048 bits")]
    RsaTooShort,
    #[error("the RSA key is invalid")]
    ReadKey { source: KeyRejected },
    #[error("failed to encode the RSA key")]
    WriteKey { source: Unspecified },
    #[error("failed to derive a key")]
    DeriveKey { source: Unspecified },
    #[error("the private key of the CA is invalid; RSA, ECDSA and Ed25519 keys are supported")]
    CaKey,
    #[error("the certificate of the CA is invalid")]
    CaCertificate,
    #[error("the private key of the CA does not match its first certificate")]
    CaMismatch,
    #[error("the subject of the CA has an attribute twice; use a CA whose subject has each attribute once")]
    CaSubject,
    #[error("a leaf needs at least one name")]
    Nameless,
    #[error("{0:?} is not a valid SAN")]
    Name(String),
    #[error("the validity of the certificate is outside the years 1970 to 9999")]
    Validity,
    #[error("failed to create the certificate")]
    MakeCertificate { source: rcgen::Error },
    #[error("the certificate and key are not usable for TLS")]
    Tls { source: rustls::Error },
    #[error("the CA certificates are not usable")]
    ClientCa { source: rustls::server::VerifierBuilderError },
}
