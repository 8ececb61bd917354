//! What is kept for a mesh beside its resources: a `Config` record for each subject. It goes with its mesh.

use kodiak_model::{Labels, ResourceKey};
use kodiak_store::{Expect, Store, StoreError, Write};
use kodiak_world::{Resource, document};
use serde::{Serialize, de::DeserializeOwned};

/// `None`: another version wrote it in another form.
pub(crate) fn read<T: DeserializeOwned>(resource: &Resource) -> Option<T> {
    let read = resource.document();
    if read.is_none() {
        tracing::warn!(record = %resource.key, "cannot read a record of the control plane, ignoring it");
    }
    read
}

/// Writes, if it is still as it was read. `false`: somebody else was faster, or the mesh is gone.
pub(crate) async fn write<T: Serialize>(
    store: &Store,
    mesh: &str,
    name: &str,
    old: Option<&Resource>,
    new: &T,
) -> Result<bool, StoreError> {
    let spec = serde_json::to_string(new).expect("documents have text keys");
    let write = Write::Put {
        key: document::key(mesh, name),
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
