//! Mesh: its CAs are usable and do not change while proxies have their certificates; their keys are in Secrets; it is
//! deleted only when it is empty.

mod ca;
mod inline_key;

use std::sync::Arc;

use kodiak_model::{
    Checked, FieldPath, Problems, ResourceKey,
    kinds::mesh::{Mesh, MeshServicesMode, new_name_fault},
};
use kodiak_store::{Expect, Record, Snapshot, Write};

use crate::{Catalog, Refusal, Stage};

/// Returns the writes of the Mesh's Secrets, and the Secrets that were read.
pub(super) fn before_put(
    catalog: &Catalog,
    snapshot: &Snapshot,
    checked: &mut Checked,
    old: Option<&Record>,
) -> Result<Vec<Write>, Refusal> {
    let mut mesh = checked.typed::<Mesh>().map(Arc::unwrap_or_clone).expect("a Mesh was checked");
    let mut problems = Problems::default();
    if old.is_none()
        && let Some(fault) = new_name_fault(&checked.name)
    {
        problems.add(&FieldPath::NAME, fault);
    }
    check_mode(snapshot, &checked.name, &mesh, &mut problems);
    if !mesh.mtls.as_ref().is_some_and(|mtls| mtls.skip_validation) {
        let stored = snapshot.world().mesh(&checked.name);
        if let Some(old) = &stored {
            ca::check_change(snapshot, &catalog.files, &checked.name, old, &mesh, &mut problems);
        }
        let (stored, warnings) = (stored.as_deref(), &mut checked.warnings);
        ca::check_provided(snapshot, &catalog.files, &checked.name, stored, &mesh, &mut problems, warnings);
    }
    ca::check_builtin(snapshot, &checked.name, &mesh, &mut problems);
    let mut writes: Vec<_> = ca::sources_read(&checked.name, &mesh).map(|key| super::require(snapshot, key)).collect();
    writes.extend(inline_key::move_to_secrets(catalog, snapshot, &checked.name, &mut mesh, &mut problems));
    if !problems.is_empty() {
        let stage = if old.is_none() { Stage::Create } else { Stage::Update };
        return Err(Refusal::invalid(stage, problems));
    }
    mesh.fill_defaults();
    checked.replace(mesh);
    Ok(writes)
}

/// MeshIdentities need the mode Exclusive: without it, proxies would lose their certificates, and a strict mesh would
/// accept plain text.
fn check_mode(snapshot: &Snapshot, name: &str, new: &Mesh, problems: &mut Problems) {
    let was_exclusive = snapshot.world().mesh_services_mode(name) == MeshServicesMode::Exclusive;
    if !was_exclusive || new.mesh_services_mode() == MeshServicesMode::Exclusive {
        return;
    }
    let identities: Vec<&str> = snapshot.list_in("MeshIdentity", name).map(|record| &*record.key.name).collect();
    if let [first, ..] = identities[..] {
        let others = if identities.len() > 1 { format!(" and {} more", identities.len() - 1) } else { String::new() };
        let message = format!(
            "must stay Exclusive while the mesh has MeshIdentities ({first}{others}): their certificates would be removed; delete the MeshIdentities first, and wait until `kodiak migrate identity status` says that the rollout is done"
        );
        problems.add(&FieldPath::ROOT.field("meshServices").field("mode"), message);
    }
}

pub(super) fn before_delete(catalog: &Catalog, snapshot: &Snapshot, name: &str) -> Result<Vec<Write>, Refusal> {
    if catalog.settings.unsafe_delete {
        return Ok(Vec::new());
    }
    let key = ResourceKey::global("Mesh", name);
    if let Some(mesh) = snapshot.get(&key)
        && snapshot.list_in("Dataplane", name).next().is_none()
    {
        let expect = Expect::VersionWithout { version: mesh.version, owned: "Dataplane" };
        return Ok(vec![Write::Require { key, expect }]);
    }
    let mut problems = Problems::default();
    problems.add(&FieldPath::MESH, "unable to delete mesh, there are still some dataplanes attached");
    Err(Refusal::invalid(Stage::Delete, problems))
}
