//! Reading back what is in the store.

use kodiak_model::{
    Kind, ResourceKey, Scope, Spec,
    kinds::dataplane::{Admission, DataplaneStatus},
    language,
};
use kodiak_store::Record;
use kodiak_views::destination::{self, Destination, Stored};

/// The spec of a stored record. `None` when it was stored by a version that wrote it differently; such a resource
/// hurts only itself.
pub fn spec_of<S: Spec>(record: &Record) -> Option<S> {
    match language::decode(&record.spec) {
        Ok(spec) => Some(spec),
        Err(error) => {
            tracing::warn!(resource = %record.key, %error, "Ignoring a stored resource that cannot be read.");
            None
        }
    }
}

/// What the token binds with which a proxy brought this Dataplane; `None` for one that a user wrote.
pub fn admission_of(record: &Record) -> Option<Admission> {
    let status = record.status.as_ref()?;
    serde_json::from_str::<DataplaneStatus>(status).map_or_else(
        |error| {
            tracing::warn!(resource = %record.key, %error, "cannot read the status of a Dataplane, nothing vouches for it");
            Some(Admission::unknown())
        },
        |status| status.admission,
    )
}

/// A MeshService, MeshExternalService or MeshMultiZoneService as callers see it. `None`, as above, for what this version
/// cannot read, and for other kinds.
pub fn destination_of(record: &Record) -> Option<Destination> {
    let (_, kind) = destination::KINDS.iter().find(|(kind, _)| kind.name == &*record.key.kind)?;
    let stored = Stored {
        mesh: &record.key.mesh,
        name: &record.key.name,
        labels: &record.labels,
        created: record.created,
        spec: &record.spec,
        status: record.status.as_deref().unwrap_or_default(),
    };
    let destination = Destination::read(*kind, stored);
    if destination.is_none() {
        tracing::warn!(resource = %record.key, "Ignoring a stored service that cannot be read.");
    }
    destination
}

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
