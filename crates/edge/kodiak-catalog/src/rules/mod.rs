//! What must hold between resources. A document may be fine by itself and still not fit what is there.

mod dataplane;
mod mesh;
mod secret;
mod zone;

use kodiak_model::Checked;
use kodiak_store::{Record, Snapshot};

use crate::{Catalog, Refusal, Target};

/// Refuses what does not fit, and fills in what follows from the mesh and the zone.
pub(crate) fn before_put(
    catalog: &Catalog,
    snapshot: &Snapshot,
    checked: &mut Checked,
    old: Option<&Record>,
) -> Result<(), Refusal> {
    match checked.kind.name {
        "Mesh" => mesh::before_put(snapshot, checked, old),
        "Dataplane" => dataplane::before_put(catalog, snapshot, checked, old),
        _ => Ok(()),
    }
}

/// Refuses to take away what others still need.
pub(crate) fn before_delete(catalog: &Catalog, snapshot: &Snapshot, target: Target<'_>) -> Result<(), Refusal> {
    match target.kind.name {
        "Mesh" => mesh::before_delete(catalog, snapshot, target.name),
        "Secret" => secret::before_delete(snapshot, target),
        "Zone" => zone::before_delete(snapshot, target.name),
        _ => Ok(()),
    }
}
