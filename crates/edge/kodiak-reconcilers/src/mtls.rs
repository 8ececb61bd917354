//! mTLS rollouts: takes the next step of a mesh when its proxies have acknowledged the current one.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use kodiak_identity::{Progress, Step};
use kodiak_rollout::Waiting;
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
pub async fn run(store: Store, quarantine: Quarantine, drain: CancellationToken) -> Result<(), StoreError> {
    let mut leadership = store.leadership();
    let mut known = Known { watch: store.watch(0)?, meshes: Meshes::default(), quarantine };
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
            _ = remind.tick() => report(&known.meshes, &unfinished, &mut since),
            () = tokio::time::sleep(PAUSE), if !unfinished.is_empty() => (),
        }
        if let Some(leader) = store.leader() {
            advance(&leader, &known.meshes, &mut unfinished).await;
        }
    }
}

/// Progress of all meshes, from all resources except those in quarantine.
struct Known {
    watch: Watch,
    meshes: Meshes,
    quarantine: Quarantine,
}

impl Known {
    /// Applies pending changes, and returns the affected meshes.
    fn gather(&mut self, store: &Store, first: Change) -> Result<BTreeSet<Arc<str>>, StoreError> {
        let (mut changed, mut next) = (BTreeSet::new(), Some(first));
        while let Some(change) = next {
            self.quarantine.release(TASK, &change.key);
            let applied = caught(|| {
                let mesh = self.meshes.apply(&change);
                // A panic in `step` is provoked here, where the change that causes it is known.
                drop(mesh.as_ref().and_then(|mesh| self.meshes.get(mesh)).map(Progress::step));
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
        let snapshot = store.snapshot();
        self.watch = store.watch(snapshot.revision())?;
        let mut stored: Vec<Change> = snapshot.world().changes().collect();
        // The newest change is the most likely cause, so it comes last.
        stored.sort_by_key(|change| change.revision);
        let Built { value: (meshes, changed), faulty } = build(&stored, |stored| {
            let (mut meshes, mut changed) = (Meshes::default(), BTreeSet::new());
            for change in stored {
                changed.extend(meshes.apply(change));
            }
            changed.iter().filter_map(|mesh| meshes.get(mesh)).for_each(|progress| drop(progress.step()));
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

async fn advance(leader: &Leader, meshes: &Meshes, unfinished: &mut BTreeSet<Arc<str>>) {
    for mesh in std::mem::take(unfinished) {
        let Some(progress) = meshes.get(&mesh) else { continue };
        let snapshot = leader.snapshot();
        // A record that is stored but not applied yet arrives through the watch: after a start, nothing is decided without it.
        if !progress.has_records_of(snapshot.world(), &mesh) {
            unfinished.insert(mesh);
            continue;
        }
        let next = match progress.step() {
            Step::Done => continue,
            Step::Wait { .. } => {
                unfinished.insert(mesh);
                continue;
            }
            Step::Take { next, .. } => *next,
        };
        let old = snapshot.world().get(&document::key(&mesh, ROLLOUT));
        match documents::write(leader, &mesh, ROLLOUT, old.map(|old| old.version), &next).await {
            Ok(true) => tracing::info!(mesh = &*mesh, step = next.token(), "mTLS rollout advanced"),
            // Conflict: the newer record arrives through the watch.
            Ok(false) => (),
            Err(error) => {
                tracing::warn!(%error, mesh = &*mesh, "failed to persist the mTLS rollout, retrying");
                unfinished.insert(mesh);
            }
        }
    }
}

/// Logs rollouts that wait. `since` has the start of each wait.
fn report(meshes: &Meshes, unfinished: &BTreeSet<Arc<str>>, since: &mut BTreeMap<Arc<str>, Instant>) {
    since.retain(|mesh, _| unfinished.contains(mesh));
    for mesh in unfinished {
        let Some(Step::Wait { proxies, .. }) = meshes.get(mesh).map(Progress::step) else {
            since.remove(mesh);
            continue;
        };
        let (mesh, count, waited) =
            (&**mesh, proxies.len(), since.entry(mesh.clone()).or_insert_with(Instant::now).elapsed());
        let named: Vec<_> = proxies.iter().take(MOST_NAMED).map(ToString::to_string).collect();
        let (proxies_waited_for, seconds) = (named.join(", "), waited.as_secs());
        if waited >= ALERT || proxies.iter().any(Waiting::is_rejected) {
            tracing::warn!(
                mesh,
                count,
                proxies_waited_for,
                seconds,
                "mTLS rollout is stuck: fix or stop these proxies"
            );
        } else {
            tracing::info!(mesh, count, proxies_waited_for, seconds, "mTLS rollout waits for proxies to acknowledge");
        }
    }
}
