//! Secret: not deleted while a CA of a mesh uses it.

use kodiak_model::{FieldPath, Problems};
use kodiak_store::Snapshot;

use crate::{Refusal, Stage, Target, ca};

pub(super) fn before_delete(snapshot: &Snapshot, target: Target<'_>) -> Result<(), Refusal> {
    let (mesh, secret) = (target.mesh, target.name);
    let Some(spec) = snapshot.world().mesh(mesh) else { return Ok(()) };
    let Some(backend) = ca::backend_using(mesh, &spec, secret) else { return Ok(()) };
    let mut problems = Problems::default();
    problems.add(&FieldPath::NAME, format!(
        "The secret {secret:?} that you are trying to remove is currently in use in Mesh {mesh:?} in mTLS backend {backend:?}. Please remove the reference from the {backend:?} backend before removing the secret."
    ));
    Err(Refusal::invalid(Stage::Delete, problems))
}
