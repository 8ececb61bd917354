//! Keys and certificates of meshes.
//!
//! In: the store with the CAs, and the clock as an argument. Out: the certificates of proxies, as the engine requests them,
//! and those by which control planes and proxies authenticate at Envoy's admin interface.
//!
//! **Invariant:** no certificate of a proxy is stored, and none is random: every control plane issues the same one from
//! the same store, before and after a restart. The caches only save time.
//! **Invariant:** the private key of a CA does not leave: roots are certificates alone, and nothing here prints a key.

mod admin;
mod client_pairs;
mod expiry;
mod hash;
mod identity_issuer;
mod issuer;
mod leaves;
mod period;
mod sweep;

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use jiff::Timestamp;
use kodiak_catalog::FileSources;
use kodiak_engine::{ClientPair, Identities, Leaf, LeafRequest};
use kodiak_model::{Kri, ProxyKey, kinds::mesh_external_service::Source};
use kodiak_rollout::AppliedBackend;
use kodiak_store::Store;
use kodiak_xds::input::AdminCertificate;

pub use admin::AdminClient;
pub use expiry::{Expiries, LeafExpiry, watch_expiries};
pub use issuer::CaLife;
pub use kodiak_engine::ADMIN_CLIENT_NAME;
pub use period::Renewal;

/// CAs of all meshes. Cheap to clone; all clones share one cache.
#[derive(Clone)]
pub struct MeshCas {
    store: Store,
    files: FileSources,
    renewal: Renewal,
    made: Arc<Mutex<Made>>,
}

/// Cached CAs and certificates. The lock is held to look up and insert, never while a certificate is issued.
#[derive(Default)]
struct Made {
    mesh_cas: issuer::Cache,
    identity_cas: identity_issuer::Cache,
    leaves: leaves::Cache,
    admin: admin::Cache,
    client_pairs: client_pairs::Cache,
}

impl MeshCas {
    pub fn new(store: Store) -> Self {
        Self { store, files: FileSources::default(), renewal: Renewal::default(), made: Arc::default() }
    }

    /// Allows backends of meshes to name files.
    pub fn with_files(self, files: FileSources) -> Self {
        Self { files, ..self }
    }

    /// Renews certificates at another share of their lifetime. All control planes of a store need the same one.
    pub fn with_renewal(self, renewal: Renewal) -> Self {
        Self { renewal, ..self }
    }

    /// The CAs in use, with their validity.
    pub fn cas(&self) -> Vec<CaLife> {
        self.made().mesh_cas.lives()
    }

    /// Client certificate and trusted CA of the control plane for the admin interface of proxies.
    pub fn admin_client(&self) -> Result<Arc<AdminClient>, String> {
        admin::client(self, &self.store.snapshot())
    }

    fn made(&self) -> MutexGuard<'_, Made> {
        self.made.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Identities for MeshCas {
    fn leaf(&self, request: &LeafRequest, now: Timestamp) -> Result<Arc<Leaf>, String> {
        leaves::leaf(self, &self.store.snapshot(), request, now)
    }

    fn roots(&self, mesh: &str, backend: &AppliedBackend) -> Result<Arc<str>, String> {
        issuer::roots(self, &self.store.snapshot(), mesh, backend)
    }

    fn source(&self, mesh: &str, source: &Source) -> Result<Arc<str>, String> {
        kodiak_catalog::external_source(&self.store.snapshot(), mesh, source)
    }

    fn client_pair(&self, service: &Kri, pair: ClientPair) -> Result<ClientPair, String> {
        self.made().client_pairs.matching(service, pair)
    }

    fn admin(&self, proxy: &ProxyKey) -> Option<Arc<AdminCertificate>> {
        admin::of_proxy(self, &self.store.snapshot(), proxy)
    }
}

/// Never the contents.
impl fmt::Debug for MeshCas {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MeshCas(***)")
    }
}

/// An error with its causes, in one line.
fn with_causes(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}
