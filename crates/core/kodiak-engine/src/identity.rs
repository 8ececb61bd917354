//! Certificates, as the engine asks for them.

use std::sync::Arc;

use jiff::Timestamp;
use kodiak_model::ProxyKey;
use kodiak_xds::input::{AdminCertificate, Identity};
use kodiak_xds_stream::Version;

/// Who makes certificates. Asking twice within the life of a certificate gives the same one.
pub trait Identities {
    /// The certificate of a proxy.
    fn leaf(&self, request: &LeafRequest, now: Timestamp) -> Result<Arc<Leaf>, String>;

    /// The certificates (PEM) by which the leaves of this backend of the mesh are believed.
    fn roots(&self, mesh: &str, backend: &str) -> Result<Arc<str>, String>;

    /// For the listener through which the control plane asks a proxy's admin interface. `None`: no such listener.
    fn admin(&self, proxy: &ProxyKey) -> Option<Arc<AdminCertificate>>;
}

/// What a leaf is made for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct LeafRequest {
    pub proxy: ProxyKey,
    /// The backend of the mesh that signs.
    pub backend: Arc<str>,
    /// The URIs that the proxy is known by, in the order of the certificate.
    pub uris: Arc<[String]>,
}

#[derive(Debug, Clone)]
pub struct Leaf {
    pub identity: Identity,
    /// Equal for leaves that were made from the same request for the same time, also after a restart.
    pub version: Version,
    pub not_after: Timestamp,
    /// From here on another one should be asked for.
    pub renew_at: Timestamp,
}
