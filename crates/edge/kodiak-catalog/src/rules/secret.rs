//! Secret: not deleted while a CA of a mesh uses it.

use kodiak_model::{FieldPath, Problems, ResourceKey};
use kodiak_store::{Snapshot, Write};

use crate::{Refusal, Stage, Target, ca};

pub(super) fn before_delete(snapshot: &Snapshot, target: Target<'_>) -> Result<Vec<Write>, Refusal> {
    let (mesh, secret) = (target.mesh, target.name);
    let users = snapshot.world().mesh(mesh);
    let Some(backend) = users.as_ref().and_then(|spec| ca::backend_using(mesh, spec, secret)) else {
        return Ok(vec![super::require(snapshot, ResourceKey::global("Mesh", mesh))]);
    };
    let mut problems = Problems::default();
    problems.add(&FieldPath::NAME, format!(
        "The secret {secret:?} that you are trying to remove is currently in use in Mesh {mesh:?} in mTLS backend {backend:?}. Please remove the reference from the {backend:?} backend before removing the secret."
    ));
    Err(Refusal::invalid(Stage::Delete, problems))
}
