//! Errors before the first request: in the address, the files or the credentials of an [`Endpoint`](crate::Endpoint).

use std::io;
use std::path::PathBuf;

use crate::AddressError;

/// A client could not be made. Nothing was sent.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    #[error(transparent)]
    Address(#[from] AddressError),
    #[error("{0:?} cannot be the name of a header")]
    HeaderName(String),
    /// The value is not repeated, since it may be a secret.
    #[error("header {0:?} has a value that HTTP does not take")]
    HeaderValue(String),
    #[error("the token holds characters that no token has; set another one")]
    Token,
    #[error("cannot read {}", file.display())]
    File { file: PathBuf, source: io::Error },
    #[error("{} holds no certificates in PEM{reason}", file.display())]
    Certificates { file: PathBuf, reason: String },
    #[error("{} holds a certificate that is no authority", file.display())]
    NotACa { file: PathBuf, source: rustls::Error },
    #[error("{} holds no private key in PEM ({reason})", file.display())]
    PrivateKey { file: PathBuf, reason: String },
    #[error("{} and {} do not fit", cert_file.display(), key_file.display())]
    ClientCertificate { cert_file: PathBuf, key_file: PathBuf, source: rustls::Error },
    #[error("this machine has no root certificates; name the CA of the control plane")]
    NoSystemRoots(#[source] io::Error),
    #[error("cannot set up TLS")]
    Tls(#[source] rustls::Error),
}
