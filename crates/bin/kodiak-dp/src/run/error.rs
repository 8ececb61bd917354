//! Why a proxy does not run.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use hyper::StatusCode;
use kodiak_crypto::CryptoError;

use crate::envoy::VersionError;

#[derive(Debug, thiserror::Error)]
pub enum RunError {
    #[error("{address:?} is not the address of a control plane; write for example https://localhost:5678")]
    Address { address: String },
    #[error("the CA file cannot be used")]
    Ca(#[source] CryptoError),
    #[error("the token holds characters that no token has; make another one with `kodiak generate dataplane-token`")]
    Token,
    #[error("cannot use the work folder {}", folder.display())]
    WorkDir { folder: PathBuf, source: io::Error },
    #[error("another proxy works in {}; give each its own with --work-dir, or none at all", folder.display())]
    WorkDirInUse { folder: PathBuf },
    #[error("cannot listen on {address} for {what}; choose another port with {flag}")]
    Listen { what: &'static str, flag: &'static str, address: SocketAddr, source: io::Error },
    #[error(transparent)]
    Version(#[from] VersionError),
    #[error(
        "the control plane at {address} shows a certificate that the CA file does not vouch for; \
         pass the CA of this control plane, and the name that is in its certificate"
    )]
    Untrusted { address: String, source: rustls::Error },
    /// The texts of control planes begin like this in Kuma, and people search for them.
    #[error("Invalid request: {body}")]
    Refused { status: StatusCode, body: String },
    #[error("the answer of {address} is not what a control plane says: {why}")]
    NotUnderstood { address: String, why: String },
    #[error("cannot start {}", program.display())]
    Start { program: PathBuf, source: io::Error },
}
