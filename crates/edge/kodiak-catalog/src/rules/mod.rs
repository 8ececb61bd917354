//! Rules between resources: a valid document may still conflict with stored resources.

mod dataplane;
mod mesh;
mod mesh_service;
mod mesh_trust;
mod policy;
mod secret;
mod zone;

use kodiak_model::{Checked, ResourceKey};
use kodiak_store::{Record, Snapshot, Write};

use crate::{Catalog, Refusal, Target};

pub(crate) use mesh_service::LeftOut;
pub(crate) use policy::{TooMany, check_combinations, too_many};

/// Rejects conflicts, and fills in fields from the mesh and the zone. Returns related writes, and what was read.
pub(crate) fn before_put(
    catalog: &Catalog,
    snapshot: &Snapshot,
    checked: &mut Checked,
    left_out: LeftOut,
    old: Option<&Record>,
) -> Result<Vec<Write>, Refusal> {
    match checked.kind.name {
        "Mesh" => mesh::before_put(catalog, snapshot, checked, old),
        "Dataplane" => {
            dataplane::before_put(catalog, snapshot, checked, old)?;
            Ok(vec![require(snapshot, ResourceKey::global("Mesh", &checked.mesh))])
        }
        "MeshService" => {
            mesh_service::before_put(snapshot, checked, left_out);
            Ok(Vec::new())
        }
        "MeshTrust" => mesh_trust::before_put(checked, old).map(|()| Vec::new()),
        _ => Ok(Vec::new()),
    }
}

/// Rejects the deletion of a resource that is still in use. Returns what it was decided on.
pub(crate) fn before_delete(catalog: &Catalog, snapshot: &Snapshot, target: Target<'_>) -> Result<Vec<Write>, Refusal> {
    match target.kind.name {
        "Mesh" => mesh::before_delete(catalog, snapshot, target.name),
        "Secret" => secret::before_delete(snapshot, target),
        "Zone" => zone::before_delete(snapshot, target.name),
        _ => Ok(Vec::new()),
    }
}

/// The decision depends on this record, or on its absence.
fn require(snapshot: &Snapshot, key: ResourceKey) -> Write {
    Write::Require { expect: snapshot.expect(&key), key }
}
