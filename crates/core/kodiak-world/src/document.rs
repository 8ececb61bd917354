//! Internal records of the control plane for a mesh. They are deleted with their mesh.

use kodiak_model::ResourceKey;

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

pub fn key(mesh: &str, name: &str) -> ResourceKey {
    ResourceKey::in_mesh(KIND, mesh, name)
}

/// Name of an internal record.
pub fn name(key: &ResourceKey) -> Option<&str> {
    (&*key.kind == KIND).then_some(&*key.name)
}
