//! State of reconcilers, stored as `Config` records that their mesh owns.

use kodiak_model::{Labels, ResourceKey};
use kodiak_store::{Expect, Leader, StoreError, Write};
use kodiak_world::{Resource, document};
use serde::{Serialize, de::DeserializeOwned};

/// `None` when another version wrote it in an unknown format.
pub(crate) fn read<T: DeserializeOwned>(resource: &Resource) -> Option<T> {
    let read = resource.document();
    if read.is_none() {
        tracing::error!(record = %resource.key, "unreadable record of the control plane: what depends on it stays as it is until it can be read");
    }
    read
}

/// Compare-and-swap against a version; without one it must not exist yet. `false` on a conflict, or when the mesh does not
/// exist any more.
pub(crate) async fn write<T: Serialize>(
    leader: &Leader,
    mesh: &str,
    name: &str,
    version: Option<u64>,
    new: &T,
) -> Result<bool, StoreError> {
    let spec = serde_json::to_string(new).expect("documents have text keys");
    let write = Write::Put {
        key: document::key(mesh, name),
        spec: spec.into(),
        labels: Labels::new(),
        owner: Some(ResourceKey::global("Mesh", mesh)),
        expect: version.map_or(Expect::Absent, Expect::Version),
    };
    match leader.commit(write.into()).await {
        Ok(_) => Ok(true),
        Err(StoreError::Conflict(_) | StoreError::OwnerMissing { .. } | StoreError::Invalid { .. }) => Ok(false),
        Err(error) => Err(error),
    }
}
