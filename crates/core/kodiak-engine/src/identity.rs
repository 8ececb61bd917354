//! Certificates and secrets that the engine requests from its caller.

use std::sync::Arc;

use jiff::Timestamp;
use kodiak_model::{Kri, ProxyKey, kinds::mesh_external_service::Source};
use kodiak_rollout::AppliedBackend;
use kodiak_xds::input::{AdminCertificate, Identity};
use kodiak_xds_stream::Version;

/// SAN of the client certificate with which a control plane authenticates to the admin listener of a proxy.
pub const ADMIN_CLIENT_NAME: &str = "kuma-cp";

/// Client certificate and private key, as PEM.
pub type ClientPair = (Arc<str>, Arc<str>);

/// Issues certificates. Equal requests return the same certificate until it is due for renewal.
pub trait Identities {
    /// The certificate of a proxy.
    fn leaf(&self, request: &LeafRequest, now: Timestamp) -> Result<Arc<Leaf>, String>;

    /// Root certificates (PEM) of a CA backend of the mesh.
    fn roots(&self, mesh: &str, backend: &AppliedBackend) -> Result<Arc<str>, String>;

    /// Content of a data source of a MeshExternalService: a Secret of the mesh, or inline text.
    fn source(&self, mesh: &str, source: &Source) -> Result<Arc<str>, String>;

    /// Client certificate and private key (PEM) for a MeshExternalService: this pair, or the last one that matched while they
    /// do not belong together.
    fn client_pair(&self, service: &Kri, pair: ClientPair) -> Result<ClientPair, String>;

    /// Server certificate of the admin listener of a proxy. `None`: the proxy has no such listener.
    fn admin(&self, proxy: &ProxyKey) -> Option<Arc<AdminCertificate>>;
}

/// Identifies a leaf certificate.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct LeafRequest {
    pub proxy: ProxyKey,
    pub issuer: LeafIssuer,
    /// URI SANs, in the order of the certificate.
    pub uris: Arc<[String]>,
}

/// CA of a leaf certificate.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LeafIssuer {
    /// Of a backend of the mesh.
    Backend(AppliedBackend),
    /// Of a MeshIdentity.
    Identity {
        kri: Arc<str>,
        /// SHA-256 of the CA certificate, in hex.
        ca: Arc<str>,
        /// Lifetime of certificates, in seconds.
        seconds: u64,
    },
}

impl LeafIssuer {
    /// As DataplaneInsights name it: the backend, or the KRI of the MeshIdentity.
    pub fn name(&self) -> &Arc<str> {
        match self {
            Self::Backend(backend) => &backend.name,
            Self::Identity { kri, .. } => kri,
        }
    }
}

#[derive(Debug, Clone)]
pub struct Leaf {
    pub identity: Identity,
    /// Serial number, in hex.
    pub serial: Arc<str>,
    /// First URI SAN.
    pub spiffe_id: Arc<str>,
    /// Equal for leaves of the same request and period, also after a restart.
    pub version: Version,
    pub not_after: Timestamp,
    /// When the engine requests the next one.
    pub renew_at: Timestamp,
}
