//! Internal records of the control plane for a mesh. They are deleted with their mesh.

use kodiak_model::ResourceKey;
use serde::de::DeserializeOwned;

use crate::Resource;

const KIND: &str = "Config";
/// Name of the record with the virtual addresses of `kuma.io/service` names.
pub const VIPS: &str = "vips";
/// Name of the record with the current step of the mTLS rollout.
pub const ROLLOUT: &str = "mtls-rollout";

/// Name of the record with the MeshIdentities and MeshTrusts that take part in the rollout.
pub const IDENTITIES: &str = "mesh-identities";

/// Prefix of the names of records with observed traffic.
pub const TRAFFIC: &str = "traffic";

/// Key of the record with the allocation positions of virtual addresses. It belongs to no mesh.
///
/// Every transaction that stores a virtual address of a destination replaces it too, by compare-and-swap: so no two
/// transactions can store the same address.
pub fn service_addresses() -> ResourceKey {
    ResourceKey::global(KIND, "service-addresses")
}

/// A record that exists and cannot be read: another version wrote it in an unknown format, or it is damaged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnreadableRecord(pub ResourceKey);

/// `None` if the record does not exist. For decisions: one that cannot be read is neither that nor its default, so what
/// depends on it has to stay as it is.
pub fn read<T: DeserializeOwned>(record: Option<&Resource>) -> Result<Option<T>, UnreadableRecord> {
    let read = |record: &Resource| record.document().ok_or_else(|| UnreadableRecord(record.key.clone()));
    record.map(read).transpose()
}

pub fn key(mesh: &str, name: &str) -> ResourceKey {
    ResourceKey::in_mesh(KIND, mesh, name)
}

/// Name of an internal record.
pub fn name(key: &ResourceKey) -> Option<&str> {
    (&*key.kind == KIND).then_some(&*key.name)
}
