//! What is kept for a mesh beside its resources: a `Config` record for each subject. It goes with its mesh.

use kodiak_model::{Labels, ResourceKey};
use kodiak_store::{Expect, Record, Store, StoreError, Write};
use serde::{Serialize, de::DeserializeOwned};

/// The name of the record with the virtual addresses of a mesh.
pub const VIPS: &str = "vips";
/// The name of the record that says how far a mesh is with mutual TLS.
pub const ROLLOUT: &str = "mtls-rollout";

/// `None`: it was written by a version that wrote it differently.
pub fn read<T: DeserializeOwned>(record: &Record) -> Option<T> {
    serde_json::from_str(&record.spec)
        .inspect_err(|error| tracing::warn!(record = %record.key, %error, "Ignoring a record that cannot be read."))
        .ok()
}

pub(crate) fn key(mesh: &str, name: &str) -> ResourceKey {
    ResourceKey::in_mesh("Config", mesh, name)
}

/// Writes, if it is still as it was read. `false`: somebody else was faster, or the mesh is gone.
pub(crate) async fn write<T: Serialize>(
    store: &Store,
    mesh: &str,
    name: &str,
    old: Option<&Record>,
    new: &T,
) -> Result<bool, StoreError> {
    let spec = serde_json::to_string(new).expect("documents have text keys");
    let write = Write::Put {
        key: key(mesh, name),
        spec: spec.into(),
        labels: Labels::new(),
        owner: Some(ResourceKey::global("Mesh", mesh)),
        expect: old.map_or(Expect::Absent, |old| Expect::Version(old.version)),
    };
    match store.commit(write.into()).await {
        Ok(_) => Ok(true),
        Err(StoreError::Conflict(_) | StoreError::Invalid { .. }) => Ok(false),
        Err(error) => Err(error),
    }
}
