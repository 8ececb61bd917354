//! Position of a mesh in its rollout, for people.

use std::sync::Arc;

use kodiak_rollout::{Phase, Rollout, Waiting};
use kodiak_world::{
    World,
    document::{self, IDENTITIES, ROLLOUT},
};

use crate::{Moment, Progress, Step, expected};

/// Position of a mesh in its rollout.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RolloutStatus {
    pub current: Rollout,
    pub target: Rollout,
    /// Phase of the next step. `None` at the target.
    pub next: Option<Phase>,
    /// Proxies that hold it up.
    pub waiting: Vec<Waiting>,
    /// Records of the control plane that cannot be read. The rollout waits.
    pub unreadable: Vec<&'static str>,
    /// Faults of MeshTrusts that are stored and not trusted.
    pub ignored: Vec<Arc<str>>,
}

/// Computed from the store. `None` without the mesh. Cheap for a mesh at its target.
pub fn rollout_status(world: &World, mesh: &str, moment: &Moment) -> Option<RolloutStatus> {
    let mut progress = Progress::default();
    progress.mesh = Some(world.mesh(mesh)?);
    let mut set = |name| {
        let record = world.get(&document::key(mesh, name));
        progress.set_record(name, record.map(|record| &**record));
        record.is_some()
    };
    set(ROLLOUT);
    if !set(IDENTITIES) {
        progress.set_desired(expected(world, mesh));
    }
    let mut target = progress.target()?;
    let current = progress.current().map_or_else(|| target.clone(), |record| record.step.clone());
    let is_at_target = current.is_same_step(&target);
    if is_at_target {
        target.repeat = current.repeat;
    } else {
        for resource in world.list_in("Dataplane", mesh) {
            progress.dataplane(&resource.key.name, Some(resource));
        }
        for resource in world.list_in("DataplaneInsight", mesh) {
            progress.insight(&resource.key.name, Some(resource));
        }
    }
    let mut unreadable = Vec::new();
    let (next, waiting) = match progress.step(moment) {
        Step::Done => (None, Vec::new()),
        Step::Take { phase, .. } => (Some(phase), Vec::new()),
        Step::Wait { phase, proxies } => (Some(phase), proxies),
        Step::Unreadable(records) => {
            unreadable = records;
            (None, Vec::new())
        }
    };
    // A new mesh is at its target before its first step is stored.
    let next = next.filter(|_| !is_at_target);
    let ignored = progress.desired().ignored.clone();
    Some(RolloutStatus { current, target, next, waiting, unreadable, ignored })
}
