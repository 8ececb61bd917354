//! Progress of mTLS rollouts by mesh, updated by changes of the store.

use std::{collections::BTreeMap, sync::Arc};

use kodiak_identity::{Moment, Progress, Step};
use kodiak_model::kinds::mesh::Mesh;
use kodiak_world::{
    Change, Resource,
    document::{self, IDENTITIES, ROLLOUT},
};

#[derive(Default)]
pub(crate) struct Meshes(BTreeMap<Arc<str>, Progress>);

impl Meshes {
    /// Applies a change, and returns the affected mesh.
    pub(crate) fn apply(&mut self, change: &Change) -> Option<Arc<str>> {
        let Change { key, resource, .. } = change;
        let resource = resource.as_deref();
        let record = document::name(key);
        let mesh = match &*key.kind {
            "Mesh" => &key.name,
            "Dataplane" | "DataplaneInsight" => &key.mesh,
            _ if record == Some(ROLLOUT) || record == Some(IDENTITIES) => &key.mesh,
            _ => return None,
        };
        let progress = self.0.entry(mesh.clone()).or_default();
        match &*key.kind {
            "Mesh" => progress.mesh = resource.and_then(Resource::spec::<Mesh>),
            "Dataplane" => progress.dataplane(&key.name, resource),
            "DataplaneInsight" => progress.insight(&key.name, resource),
            _ => {
                let name = if record == Some(IDENTITIES) { IDENTITIES } else { ROLLOUT };
                if !progress.set_record(name, resource) {
                    tracing::error!(
                        record = %key,
                        "unreadable record of the control plane: the mTLS rollout of the mesh waits until it can be read"
                    );
                }
            }
        }
        if progress.is_empty() {
            self.0.remove(mesh);
        }
        Some(mesh.clone())
    }

    /// See [`Progress::step_after_change`].
    pub(crate) fn step_after_change(&mut self, mesh: &str, moment: &Moment) -> Option<Step> {
        self.0.get_mut(mesh).map(|progress| progress.step_after_change(moment))
    }

    pub(crate) fn get(&self, mesh: &str) -> Option<&Progress> {
        self.0.get(mesh)
    }
}
