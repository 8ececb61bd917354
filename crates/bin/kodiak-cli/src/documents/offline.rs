//! A mesh of files alone, for commands that answer without a control plane.

use std::sync::Arc;

use jiff::Timestamp;
use kodiak_model::kinds::dataplane::Dataplane;
use kodiak_model::kinds::mesh::{Mesh, MeshServicesMode};
use kodiak_model::{Checked, Place, ResourceKey};
use kodiak_terminal::Terminal;
use kodiak_world::{Stored, World};

use super::FileArgs;

impl FileArgs {
    /// Reads and validates all files. Prints the findings and returns `None` if a file is invalid.
    ///
    /// Resources that a control plane would add are missing: generated MeshServices, virtual addresses, connections.
    pub fn world(&self, mesh: &str, zone: &str, terminal: Terminal) -> anyhow::Result<Option<World>> {
        let place = Place::Zone { name: zone.to_owned() };
        let Some(mut resources) = self.checked(mesh, &place, terminal)? else { return Ok(None) };
        let own = resources.iter().find(|one| one.kind.name == "Mesh" && one.name == mesh);
        if own.is_none() {
            terminal.remark(&format!("Warning: Mesh {mesh:?} is not in the files; using one without settings"));
        }
        let spec = own.and_then(Checked::typed::<Mesh>);
        let exclusive = spec.is_some_and(|mesh| mesh.mesh_services_mode() == MeshServicesMode::Exclusive);
        let mut world = World::default();
        for resource in &mut resources {
            as_stored(resource, zone, exclusive);
            world.put(Stored {
                key: &key(resource),
                labels: &Arc::new(resource.labels.clone()),
                created: Timestamp::UNIX_EPOCH,
                version: 1,
                status_version: 0,
                revision: 0,
                spec: &resource.spec().into(),
                status: None,
            });
        }
        Ok(Some(world))
    }
}

fn key(resource: &Checked) -> ResourceKey {
    ResourceKey::in_mesh(resource.kind.name, &resource.mesh, &resource.name)
}

/// Changes a resource as the control plane does when it is written. `exclusive`: `meshServices.mode` of its mesh.
fn as_stored(resource: &mut Checked, zone: &str, exclusive: bool) {
    if let Some(dataplane) = resource.typed::<Dataplane>() {
        let mut dataplane = Arc::unwrap_or_clone(dataplane);
        dataplane.set_zone_tag(zone, exclusive);
        dataplane.on_create();
        resource.replace(dataplane);
    }
    if let Some(mesh) = resource.typed::<Mesh>() {
        let mut mesh = Arc::unwrap_or_clone(mesh);
        mesh.fill_defaults();
        resource.replace(mesh);
    }
}
