//! The way into the store: every write of a resource, whoever brings it, goes through here.
//!
//! In: a kind, a mesh, a name and an untyped document. Out: a durable resource with its labels, its owner and what
//! comes with it, or a [`Refusal`] that says all that is wrong.
//!
//! **Invariant:** what is in the store was checked, and belongs to a mesh that exists.
//! **Invariant:** a refused write changes nothing: what belongs together is one transaction.
//! **Invariant:** a resource never refers to a Secret of the control plane, whoever writes it.
//! **Invariant:** this crate knows nothing of HTTP, and does not decide who may write.

mod authority;
mod delete;
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

pub use authority::{ADMIN_CA, AuthoritySources, authority_sources};
pub use file_source::FileSources;
pub use initial::{ADMIN_GROUP, ADMIN_USER, Defaults, Ensured};
pub use put::{Author, Planned, Put};
pub use references::{Rights, may_be_sent};
pub use refusal::{Refusal, Stage};
pub use signing::TokenKeys;
pub use source::load_source;
pub use stored::owner_of;
pub use system_secret::SystemSecret;

/// Cheap to clone; all clones speak of the same store.
#[derive(Clone)]
pub struct Catalog {
    store: Store,
    settings: Arc<Settings>,
    keys: Arc<signing::KeyCache>,
    files: FileSources,
}

#[derive(Debug, Clone)]
pub struct Settings {
    pub place: Place,
    /// Deletes a mesh even while proxies are attached to it.
    pub unsafe_delete: bool,
}

/// The resource that a request is about.
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
    pub fn new(store: Store, settings: Settings) -> Self {
        Self { store, settings: Arc::new(settings), keys: Arc::default(), files: FileSources::default() }
    }

    /// Lets data sources name files.
    pub fn with_files(self, files: FileSources) -> Self {
        Self { files, ..self }
    }

    pub fn store(&self) -> &Store {
        &self.store
    }

    pub fn place(&self) -> &Place {
        &self.settings.place
    }

    /// Resources of a mesh can be asked for only while it is there.
    pub fn require_mesh(&self, kind: &Kind, mesh: &str) -> Result<(), Refusal> {
        let missing = kind.scope == Scope::Mesh && self.store.get(&ResourceKey::global("Mesh", mesh)).is_none();
        if missing { Err(Refusal::NoMesh) } else { Ok(()) }
    }
}
