//! Keys and certificates of meshes.
//!
//! In: the store, where authorities are, and the clock as an argument. Out: the certificates of proxies, as the engine
//! asks for them, and those by which control planes and proxies know each other at Envoy's admin interface.
//!
//! **Invariant:** no certificate of a proxy is stored, and none is random: every control plane makes the same one from
//! the same store, before and after a restart. What is kept in memory only saves time.
//! **Invariant:** the key of an authority does not leave: roots are certificates alone, and nothing here prints a key.

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

/// Cheap to clone; all clones share what they made.
#[derive(Clone)]
pub struct Authorities {
    store: Store,
    files: FileSources,
    renewal: Renewal,
    made: Arc<Mutex<Made>>,
}

/// What was made already. The lock is held to look and to put, never while a certificate is made.
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

    /// Lets backends of meshes name files.
    pub fn with_files(self, files: FileSources) -> Self {
        Self { files, ..self }
    }

    /// Replaces certificates at another share of their life. All control planes of a store need the same one.
    pub fn with_renewal(self, renewal: Renewal) -> Self {
        Self { renewal, ..self }
    }

    /// The CAs that are in use, and how long they live.
    pub fn cas(&self) -> Vec<CaLife> {
        self.made().authorities.lives()
    }

    /// What the control plane shows when it asks a proxy for its admin interface, and whom it believes there.
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

/// Never the contents.
impl fmt::Debug for Authorities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Authorities(***)")
    }
}

/// An error with its causes, in one line.
fn told(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}
