//! Address and credentials of a control plane.

use std::path::PathBuf;

use super::Address;

/// Address and credentials of a control plane.
pub struct Endpoint {
    pub address: Address,
    /// CA certificates (PEM) to trust instead of those of this machine.
    pub ca_cert_file: Option<PathBuf>,
    pub client_cert: Option<ClientCertificate>,
    /// Headers of every request.
    pub headers: Vec<(String, String)>,
    /// Bearer token.
    pub token: Option<String>,
}

/// Client certificate and its private key, both PEM.
pub struct ClientCertificate {
    pub cert_file: PathBuf,
    pub key_file: PathBuf,
}

impl Endpoint {
    /// Endpoint without credentials.
    pub fn anonymous(address: Address) -> Self {
        Self { address, ca_cert_file: None, client_cert: None, headers: Vec::new(), token: None }
    }
}
