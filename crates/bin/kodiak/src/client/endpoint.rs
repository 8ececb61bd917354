//! What is needed to talk to one control plane.

use std::path::PathBuf;

use super::Address;

pub(crate) struct Endpoint {
    pub(crate) address: Address,
    /// Believed instead of the authorities of this machine.
    pub(crate) ca_cert_file: Option<PathBuf>,
    pub(crate) client_cert: Option<ClientCert>,
    /// Sent with every request.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) token: Option<String>,
}

pub(crate) struct ClientCert {
    pub(crate) cert_file: PathBuf,
    pub(crate) key_file: PathBuf,
}

impl Endpoint {
    /// An address, and nothing to show there.
    pub(crate) fn anonymous(address: Address) -> Self {
        Self { address, ca_cert_file: None, client_cert: None, headers: Vec::new(), token: None }
    }
}
