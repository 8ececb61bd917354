//! CAs and certificates of meshes.
//!
//! In: the store, which has the CAs, and the clock as an argument. Out: the certificates of proxies, for the engine, and
//! those for mutual authentication of control planes and proxies at Envoy's admin interface.
//!
//! **Invariant:** no certificate of a proxy is stored, and none is random: every control plane derives the same one from
//! the same store, before and after a restart. Caches in memory only save time.
//! **Invariant:** the private key of a CA is never sent: roots are certificates alone, and nothing here prints a key.

mod admin;
mod authority;
mod hash;
mod leaves;
mod period;
mod source;
mod sweep;

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use jiff::Timestamp;
use kodiak_catalog::FileSources;
use kodiak_engine::{Identities, Leaf, LeafRequest};
use kodiak_model::{ProxyKey, kinds::mesh_external_service::Source};
use kodiak_store::Store;
use kodiak_xds::input::AdminCertificate;

pub use admin::AdminClient;
pub use authority::CaLife;
pub use kodiak_engine::ADMIN_CLIENT_NAME;
pub use period::Renewal;

/// Cheap to clone; all clones share their caches.
#[derive(Clone)]
pub struct Authorities {
    store: Store,
    files: FileSources,
    renewal: Renewal,
    made: Arc<Mutex<Made>>,
}

/// Caches. The lock is held for lookups and insertions, never while a certificate is issued.
#[derive(Default)]
struct Made {
    authorities: authority::Cache,
    leaves: leaves::Cache,
    admin: admin::Cache,
}

impl Authorities {
    pub fn new(store: Store) -> Self {
        Self { store, files: FileSources::default(), renewal: Renewal::default(), made: Arc::default() }
    }

    /// Allows file data sources in backends.
    pub fn with_files(self, files: FileSources) -> Self {
        Self { files, ..self }
    }

    /// Renews certificates at another fraction of their validity. All control planes of a store need the same one.
    pub fn with_renewal(self, renewal: Renewal) -> Self {
        Self { renewal, ..self }
    }

    /// CAs in use, with their validity.
    pub fn cas(&self) -> Vec<CaLife> {
        self.made().authorities.lives()
    }

    /// Client certificate of the control plane for the admin interface of proxies, and the CA it trusts there.
    pub fn admin_client(&self) -> Result<Arc<AdminClient>, String> {
        admin::client(self, &self.store.snapshot())
    }

    fn made(&self) -> MutexGuard<'_, Made> {
        self.made.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Identities for Authorities {
    fn leaf(&self, request: &LeafRequest, now: Timestamp) -> Result<Arc<Leaf>, String> {
        leaves::leaf(self, &self.store.snapshot(), request, now)
    }

    fn roots(&self, mesh: &str, backend: &str) -> Result<Arc<str>, String> {
        Ok(authority::of_backend(self, &self.store.snapshot(), mesh, backend)?.roots.clone())
    }

    fn source(&self, mesh: &str, source: &Source) -> Result<Arc<str>, String> {
        source::read(&self.store.snapshot(), mesh, source)
    }

    fn admin(&self, proxy: &ProxyKey) -> Option<Arc<AdminCertificate>> {
        admin::of_proxy(self, &self.store.snapshot(), proxy)
    }
}

/// Hides the contents.
impl fmt::Debug for Authorities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Authorities(***)")
    }
}

/// An error with its causes, in one line.
fn with_causes(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}
