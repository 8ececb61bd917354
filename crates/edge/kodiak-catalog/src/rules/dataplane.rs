//! Dataplane: meets the constraints of its mesh, and gets its zone tag.

use kodiak_model::{
    Checked, FieldPath, Place, Problems, ResourceKey,
    kinds::{
        dataplane::{Dataplane, workload_label_fault},
        mesh::{Mesh, MeshServicesMode, membership_fault},
    },
    language,
};
use kodiak_store::{Record, Snapshot};

use crate::{Catalog, Refusal, Stage, spec_of};

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
    let mesh = snapshot.get(&ResourceKey::global("Mesh", &checked.mesh)).and_then(spec_of::<Mesh>).unwrap_or_default();
    let mut dataplane: Dataplane = language::decode(&checked.spec).map_err(Refusal::make)?;
    if let Place::Zone { name } = catalog.place() {
        dataplane.set_zone_tag(name, mesh.mesh_services_mode() == MeshServicesMode::Exclusive);
    }
    if old.is_none() {
        dataplane.on_create();
    }
    let constraints = mesh.constraints.unwrap_or_default();
    if let Some(fault) = membership_fault(&checked.mesh, &constraints, &dataplane) {
        let mut problems = Problems::default();
        problems.add(&FieldPath::MESH, fault);
        let stage = if old.is_none() { Stage::Create } else { Stage::Update };
        return Err(Refusal::invalid(stage, problems));
    }
    checked.spec = language::to_json(&dataplane);
    Ok(())
}
