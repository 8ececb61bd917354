//! Errors before the first request: in the address, the files or the credentials of an [`Endpoint`](crate::Endpoint).

use std::io;
use std::path::PathBuf;

use crate::AddressError;

/// The client could not be set up. No request was sent.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    #[error(transparent)]
    Address(#[from] AddressError),
    #[error("{0:?} is not a valid HTTP header name")]
    HeaderName(String),
    /// The message omits the value, since it may be a secret.
    #[error("the value of header {0:?} has characters that HTTP does not allow")]
    HeaderValue(String),
    #[error("the token has characters that HTTP does not allow; set a valid token")]
    Token,
    #[error("cannot read {}", file.display())]
    File { file: PathBuf, source: io::Error },
    #[error("{} holds no certificates in PEM format{reason}", file.display())]
    Certificates { file: PathBuf, reason: String },
    #[error("{} holds a certificate that is not a valid CA", file.display())]
    NotACa { file: PathBuf, source: kodiak_crypto::CryptoError },
    #[error("{} holds no private key in PEM format ({reason})", file.display())]
    PrivateKey { file: PathBuf, reason: String },
    #[error("certificate {} does not match private key {}", cert_file.display(), key_file.display())]
    ClientCertificate { cert_file: PathBuf, key_file: PathBuf, source: rustls::Error },
    #[error("this machine has no root certificates; configure the CA of the control plane")]
    NoSystemRoots(#[source] io::Error),
    #[error("cannot set up TLS")]
    Tls(#[source] rustls::Error),
}
