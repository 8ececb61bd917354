//! What is needed to talk to one control plane.

use std::path::PathBuf;

use super::Address;

pub struct Endpoint {
    pub address: Address,
    /// Believed instead of the authorities of this machine.
    pub ca_cert_file: Option<PathBuf>,
    pub client_cert: Option<ClientCert>,
    /// Sent with every request.
    pub headers: Vec<(String, String)>,
    pub token: Option<String>,
}

pub struct ClientCert {
    pub cert_file: PathBuf,
    pub key_file: PathBuf,
}

impl Endpoint {
    /// An address, and nothing to show there.
    pub fn anonymous(address: Address) -> Self {
        Self { address, ca_cert_file: None, client_cert: None, headers: Vec::new(), token: None }
    }
}
