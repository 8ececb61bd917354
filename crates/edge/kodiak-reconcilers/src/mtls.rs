//! mTLS rollouts: takes the next step of a mesh when its proxies have acknowledged the current one.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use jiff::{SignedDuration, Timestamp};
use kodiak_identity::{AbsenceLimits, Moment, Step};
use kodiak_rollout::{WaitReason, Waiting};
use kodiak_store::{Leader, Store, StoreError, Watch};
use kodiak_world::{
    Change,
    document::{self, ROLLOUT},
};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::{
    documents,
    leader::PAUSE,
    progress::Meshes,
    quarantine::{Built, Entry, Panicked, Quarantine, build, caught},
};

const TASK: &str = "mtls";
/// Interval at which waiting rollouts are logged.
const REMIND: Duration = Duration::from_secs(30);
/// A step that waits longer than this is logged as a warning. It is never forced: a proxy that has not acknowledged a
/// step would lose traffic with the next.
const ALERT: Duration = Duration::from_mins(5);
/// Limit of proxies that one log message names.
const MOST_NAMED: usize = 10;

/// Runs until `drain`, or until the store is closed.
pub async fn run(
    store: Store,
    quarantine: Quarantine,
    limits: AbsenceLimits,
    drain: CancellationToken,
) -> Result<(), StoreError> {
    let mut leadership = store.leadership();
    let mut known = Known { watch: store.watch(0)?, meshes: Meshes::default(), quarantine, limits };
    // When the time has passed for which a step waits for a proxy.
    let mut due: Option<Timestamp> = None;
    let mut unfinished: BTreeSet<Arc<str>> = BTreeSet::new();
    let mut remind = tokio::time::interval(REMIND);
    let mut since: BTreeMap<Arc<str>, Instant> = BTreeMap::new();
    loop {
        tokio::select! {
            biased;
            () = drain.cancelled() => return Ok(()),
            change = known.watch.next() => {
                unfinished.extend(known.gather(&store, change?.typed())?);
            }
            _ = leadership.changed() => (),
            _ = remind.tick() => report(&known, &unfinished, &mut since),
            () = tokio::time::sleep(pause(due)), if !unfinished.is_empty() => (),
        }
        if let Some(leader) = store.leader() {
            due = advance(&leader, &mut known, &mut unfinished).await;
        }
    }
}

/// Progress of all meshes, from all resources except those in quarantine.
struct Known {
    watch: Watch,
    meshes: Meshes,
    quarantine: Quarantine,
    limits: AbsenceLimits,
}

/// Until waiting rollouts are looked at again.
fn pause(due: Option<Timestamp>) -> Duration {
    let left = due.map(|due| due.duration_since(Timestamp::now()).max(SignedDuration::ZERO));
    left.and_then(|left| left.try_into().ok()).map_or(PAUSE, |left: Duration| left.min(PAUSE))
}

impl Known {
    fn moment(&self) -> Moment {
        Moment { now: Timestamp::now(), limits: self.limits }
    }

    /// Applies pending changes, and returns the affected meshes.
    fn gather(&mut self, store: &Store, first: Change) -> Result<BTreeSet<Arc<str>>, StoreError> {
        let moment = self.moment();
        let (mut changed, mut next) = (BTreeSet::new(), Some(first));
        while let Some(change) = next {
            self.quarantine.release(TASK, &change.key);
            let applied = caught(|| {
                let mesh = self.meshes.apply(&change);
                // A panic in `step` is provoked here, where the change that causes it is known.
                drop(mesh.as_ref().and_then(|mesh| self.meshes.step_after_change(mesh, &moment)));
                mesh
            });
            match applied {
                Ok(mesh) => changed.extend(mesh),
                Err(panicked) => changed.extend(self.rebuild(store, &panicked)?),
            }
            next = self.watch.try_next()?.map(|change| change.typed());
        }
        Ok(changed)
    }

    /// Rebuilds the state from the store without faulty resources, and returns all meshes.
    fn rebuild(&mut self, store: &Store, panicked: &Panicked) -> Result<BTreeSet<Arc<str>>, StoreError> {
        tracing::error!(task = TASK, %panicked, "reconciler panicked, starting it again without the resource that caused it");
        let (snapshot, moment) = (store.snapshot(), self.moment());
        self.watch = store.watch(snapshot.revision())?;
        let mut stored: Vec<Change> = snapshot.world().changes().collect();
        // The newest change is the most likely cause, so it comes last.
        stored.sort_by_key(|change| change.revision);
        let Built { value: (meshes, changed), faulty } = build(&stored, |stored| {
            let (mut meshes, mut changed) = (Meshes::default(), BTreeSet::new());
            for change in stored {
                changed.extend(meshes.apply(change));
            }
            changed.iter().filter_map(|mesh| meshes.get(mesh)).for_each(|progress| drop(progress.step(&moment)));
            (meshes, changed)
        });
        for (position, panicked) in faulty {
            let Change { key, revision, .. } = &stored[position];
            self.quarantine.add(TASK, key, Entry { revision: *revision, panicked });
        }
        self.meshes = meshes;
        Ok(changed)
    }
}

/// Takes the steps that are possible. Returns when the next one may be, because a proxy is not waited for any longer.
async fn advance(leader: &Leader, known: &mut Known, unfinished: &mut BTreeSet<Arc<str>>) -> Option<Timestamp> {
    let mut due: Option<Timestamp> = None;
    for mesh in std::mem::take(unfinished) {
        let Some(progress) = known.meshes.get(&mesh) else { continue };
        let snapshot = leader.snapshot();
        // A record that is stored but not applied yet arrives through the watch: after a start, nothing is decided without it.
        if !progress.has_records_of(snapshot.world(), &mesh) {
            unfinished.insert(mesh);
            continue;
        }
        let moment = known.moment();
        let next = match known.meshes.step_after_change(&mesh, &moment) {
            None | Some(Step::Done) => continue,
            Some(Step::Wait { proxies, .. }) => {
                due = proxies.iter().filter_map(|waiting| waiting.reason.until()).chain(due).min();
                unfinished.insert(mesh);
                continue;
            }
            Some(Step::Unreadable(_)) => {
                unfinished.insert(mesh);
                continue;
            }
            Some(Step::Take { next, .. }) => *next,
        };
        let old = snapshot.world().get(&document::key(&mesh, ROLLOUT));
        match documents::write(leader, &mesh, ROLLOUT, old.map(|old| old.version), &next).await {
            Ok(true) => tracing::info!(mesh = &*mesh, step = next.step.token(), "mTLS rollout advanced"),
            // Conflict: the newer record arrives through the watch.
            Ok(false) => (),
            Err(error) => {
                tracing::warn!(%error, mesh = &*mesh, "failed to persist the mTLS rollout, retrying");
                unfinished.insert(mesh);
            }
        }
    }
    due
}

/// Logs rollouts that wait. `since` has the start of each wait.
fn report(known: &Known, unfinished: &BTreeSet<Arc<str>>, since: &mut BTreeMap<Arc<str>, Instant>) {
    since.retain(|mesh, _| unfinished.contains(mesh));
    let moment = known.moment();
    for mesh in unfinished {
        let proxies = match known.meshes.get(mesh).map(|progress| progress.step(&moment)) {
            Some(Step::Wait { proxies, .. }) => proxies,
            Some(Step::Unreadable(records)) => {
                let records = records.join(", ");
                tracing::error!(
                    mesh = &**mesh,
                    records,
                    "mTLS rollout waits: records of the control plane are unreadable"
                );
                continue;
            }
            Some(Step::Done | Step::Take { .. }) | None => {
                since.remove(mesh);
                continue;
            }
        };
        let (mesh, count, waited) =
            (&**mesh, proxies.len(), since.entry(mesh.clone()).or_insert_with(Instant::now).elapsed());
        let named: Vec<_> = proxies.iter().take(MOST_NAMED).map(ToString::to_string).collect();
        let (proxies_waited_for, seconds) = (named.join(", "), waited.as_secs());
        let is_old_trust = |waiting: &Waiting| matches!(waiting.reason, WaitReason::OldTrust { .. });
        if proxies.iter().all(is_old_trust) {
            tracing::info!(
                mesh,
                count,
                proxies_waited_for,
                seconds,
                "mTLS rollout keeps old trust for offline proxies"
            );
        } else if waited >= ALERT || proxies.iter().any(Waiting::is_rejected) {
            tracing::warn!(
                mesh,
                count,
                proxies_waited_for,
                seconds,
                "mTLS rollout is stuck: fix these proxies, delete their Dataplanes, or undo the change"
            );
        } else {
            tracing::info!(mesh, count, proxies_waited_for, seconds, "mTLS rollout waits for proxies to acknowledge");
        }
    }
}
