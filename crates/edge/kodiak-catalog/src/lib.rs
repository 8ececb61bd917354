//! All writes of resources go through this crate.
//!
//! In: a kind, a mesh, a name and an untyped document. Out: a durable resource with its labels, its owner and the
//! resources that are created with it, or a [`Refusal`] with every problem.
//!
//! **Invariant:** stored resources are valid, and belong to a mesh that exists.
//! **Invariant:** a rejected write changes nothing: related writes are one transaction.
//! **Invariant:** a resource never references a Secret of the control plane; no user may write such a reference.
//! **Invariant:** this crate knows nothing of HTTP, and does not decide who may write.

mod ca;
mod delete;
mod external_source;
mod file_source;
mod initial;
mod inline_secret;
mod put;
mod references;
mod refusal;
mod rules;
mod signing;
mod source;
mod stored;
mod system_secret;

use std::sync::Arc;

use kodiak_model::{Kind, Place, ResourceKey, Scope};
use kodiak_store::Store;

pub use ca::{ADMIN_CA, CaSources, ca_sources};
pub use external_source::external_source;
pub use file_source::FileSources;
pub use initial::{ADMIN_GROUP, ADMIN_USER, Defaults, Ensured};
pub use put::{Author, Planned, Put};
pub use references::{Rights, may_be_sent};
pub use refusal::{Refusal, Stage};
pub use signing::TokenKeys;
pub use source::load_source;
pub use stored::owner_of;
pub use system_secret::SystemSecret;

/// Cheap to clone; all clones share the store.
#[derive(Clone)]
pub struct Catalog {
    store: Store,
    settings: Arc<CatalogSettings>,
    keys: Arc<signing::KeyCache>,
    files: FileSources,
}

#[derive(Debug, Clone)]
pub struct CatalogSettings {
    pub place: Place,
    /// Allows the deletion of a mesh with Dataplanes.
    pub unsafe_delete: bool,
}

/// Key of the resource in a request.
#[derive(Debug, Clone, Copy)]
pub struct Target<'a> {
    pub kind: &'static Kind,
    /// Empty for global kinds.
    pub mesh: &'a str,
    pub name: &'a str,
}

impl Target<'_> {
    pub fn key(&self) -> ResourceKey {
        ResourceKey::in_mesh(self.kind.name, self.mesh, self.name)
    }
}

impl Catalog {
    pub fn new(store: Store, settings: CatalogSettings) -> Self {
        Self { store, settings: Arc::new(settings), keys: Arc::default(), files: FileSources::default() }
    }

    /// Allows file data sources.
    pub fn with_files(self, files: FileSources) -> Self {
        Self { files, ..self }
    }

    pub fn store(&self) -> &Store {
        &self.store
    }

    pub fn place(&self) -> &Place {
        &self.settings.place
    }

    /// Mesh-scoped resources require an existing mesh.
    pub fn require_mesh(&self, kind: &Kind, mesh: &str) -> Result<(), Refusal> {
        let missing = kind.scope == Scope::Mesh && self.store.get(&ResourceKey::global("Mesh", mesh)).is_none();
        if missing { Err(Refusal::NoMesh) } else { Ok(()) }
    }
}
