//! Dataplane: meets the constraints of its mesh, and gets its zone tag.

use std::sync::Arc;

use kodiak_model::{
    Checked, FieldPath, Place, Problems,
    kinds::{
        dataplane::{Dataplane, workload_label_fault},
        mesh::{MeshServicesMode, membership_fault},
    },
};
use kodiak_store::{Record, Snapshot};

use crate::{Catalog, Refusal, Stage};

pub(super) fn before_put(
    catalog: &Catalog,
    snapshot: &Snapshot,
    checked: &mut Checked,
    old: Option<&Record>,
) -> Result<(), Refusal> {
    if old.is_none()
        && let Some(fault) = workload_label_fault(&checked.labels)
    {
        return Err(Refusal::Malformed(format!("bad request: {fault}")));
    }
    let mesh = snapshot.world().mesh(&checked.mesh).ok_or_else(|| Refusal::UnreadableMesh(checked.mesh.clone()))?;
    let mut dataplane = checked.typed::<Dataplane>().map(Arc::unwrap_or_clone).expect("a Dataplane was checked");
    if let Place::Zone { name } = catalog.place() {
        dataplane.set_zone_tag(name, mesh.mesh_services_mode() == MeshServicesMode::Exclusive);
    }
    if old.is_none() {
        dataplane.on_create();
    }
    let constraints = mesh.constraints.clone().unwrap_or_default();
    if let Some(fault) = membership_fault(&checked.mesh, &constraints, &dataplane) {
        let mut problems = Problems::default();
        problems.add(&FieldPath::MESH, fault);
        let stage = if old.is_none() { Stage::Create } else { Stage::Update };
        return Err(Refusal::invalid(stage, problems));
    }
    checked.replace(dataplane);
    Ok(())
}
