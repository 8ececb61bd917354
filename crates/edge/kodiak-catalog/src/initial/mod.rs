//! Resources that the control plane creates itself: with a new mesh, and for a new control plane.

mod control_plane;
mod mesh;
mod policies;
mod secrets;

use kodiak_model::{Checked, Draft, Kind, Labels, ResourceKey, labels};
use kodiak_store::{Expect, Snapshot, Write};
use serde_json::{Value, json};

use crate::{Catalog, Refusal, Stage, owner_of};

pub(crate) use secrets::root_ca;

pub use control_plane::{ADMIN_GROUP, ADMIN_USER, Defaults, Ensured};

/// Related writes: a mesh is created with keys and policies.
pub(crate) async fn companions(
    catalog: &Catalog,
    snapshot: &Snapshot,
    checked: &Checked,
    created: bool,
) -> Result<Vec<Write>, Refusal> {
    match checked.kind.name {
        "Mesh" => mesh::companions(catalog, snapshot, checked, created).await,
        _ => Ok(Vec::new()),
    }
}

/// A generated resource, with the same validation and labels as a user's.
pub(crate) fn resource(
    catalog: &Catalog,
    kind: &'static Kind,
    mesh: &str,
    name: &str,
    spec: Value,
) -> Result<Write, Refusal> {
    let checked = check(catalog, kind, mesh, name, spec)?;
    let labels = checked.labels.clone();
    Ok(labelled(&checked, labels))
}

fn check(catalog: &Catalog, kind: &'static Kind, mesh: &str, name: &str, spec: Value) -> Result<Checked, Refusal> {
    let draft = Draft {
        kind: kind.name.to_owned(),
        mesh: (!mesh.is_empty()).then(|| mesh.to_owned()),
        name: name.to_owned(),
        spec: Some(spec),
        ..Draft::default()
    };
    kodiak_model::check(kind, draft, catalog.place()).map_err(|problems| Refusal::invalid(Stage::Check, problems))
}

/// Written only where there is none yet.
fn labelled(checked: &Checked, labels: Labels) -> Write {
    let Checked { kind, mesh, name, .. } = &checked;
    Write::Put {
        key: ResourceKey::in_mesh(kind.name, mesh, name),
        spec: checked.spec().into(),
        labels,
        owner: owner_of(kind, mesh, name),
        expect: Expect::Absent,
    }
}

/// A Secret of a mesh, or a GlobalSecret for the empty mesh.
pub(crate) fn secret(catalog: &Catalog, mesh: &str, name: &str, data: &[u8], expect: Expect) -> Write {
    use base64::{Engine, prelude::BASE64_STANDARD};
    let kind = if mesh.is_empty() { "GlobalSecret" } else { "Secret" };
    let kind = kodiak_kinds::kinds().by_name(kind).expect("secrets are in the table of kinds");
    Write::Put {
        key: ResourceKey::in_mesh(kind.name, mesh, name),
        spec: json!({ "data": BASE64_STANDARD.encode(data) }).to_string().into(),
        labels: labels::compute(kind, mesh, &Labels::new(), &[], catalog.place()),
        owner: owner_of(kind, mesh, name),
        expect,
    }
}
