//! Owners: what a resource is deleted with.

use kodiak_model::{Kind, ResourceKey, Scope};

/// Owner of a resource, with which it is deleted: an insight's subject, or the mesh.
pub fn owner_of(kind: &Kind, mesh: &str, name: &str) -> Option<ResourceKey> {
    let subject = match kind.name {
        "DataplaneInsight" => Some("Dataplane"),
        "ZoneInsight" => Some("Zone"),
        "ZoneIngressInsight" => Some("ZoneIngress"),
        "ZoneEgressInsight" => Some("ZoneEgress"),
        _ => None,
    };
    match subject {
        Some(subject) => Some(ResourceKey::in_mesh(subject, mesh, name)),
        None if kind.name == "MeshInsight" => Some(ResourceKey::global("Mesh", name)),
        None => (kind.scope == Scope::Mesh).then(|| ResourceKey::global("Mesh", mesh)),
    }
}
