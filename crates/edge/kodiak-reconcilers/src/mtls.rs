//! Takes a mesh from one way of mutual TLS to another, step by step, as its proxies acknowledge.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use kodiak_rollout::Waiting;
use kodiak_store::{Store, StoreError, Watch};
use kodiak_world::{
    Change,
    document::{self, ROLLOUT},
};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::{
    documents,
    leader::{PAUSE, leads},
    progress::{Meshes, Progress, Step},
    quarantine::{Built, Entry, Panicked, Quarantine, build, caught},
};

const TASK: &str = "mtls";
/// How often the log says for whom a step waits.
const REMIND: Duration = Duration::from_secs(30);
/// A step that waits longer than this is a warning. It is never forced: a proxy that has not taken a step would lose its
/// traffic by the next.
const ALERT: Duration = Duration::from_mins(5);
/// So many proxies are named in one message.
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
        if leads(&store) {
            advance(&store, &known.meshes, &mut unfinished).await;
        }
    }
}

/// How far meshes are, from all resources but those that panic it.
struct Known {
    watch: Watch,
    meshes: Meshes,
    quarantine: Quarantine,
}

impl Known {
    /// The meshes for which something changed.
    fn gather(&mut self, store: &Store, first: Change) -> Result<BTreeSet<Arc<str>>, StoreError> {
        let (mut changed, mut next) = (BTreeSet::new(), Some(first));
        while let Some(change) = next {
            self.quarantine.release(TASK, &change.key);
            let applied = caught(|| {
                let mesh = self.meshes.apply(&change);
                // Where it panics later, it does so now, and the change that caused it is known.
                drop(mesh.as_ref().and_then(|mesh| self.meshes.get(mesh)).map(Progress::step));
                mesh
            });
            match applied {
                Ok(mesh) => changed.extend(mesh),
                Err(panicked) => changed.extend(self.make_anew(store, &panicked)?),
            }
            next = self.watch.try_next()?.map(|change| change.typed());
        }
        Ok(changed)
    }

    /// From all that is stored. All meshes may have changed.
    fn make_anew(&mut self, store: &Store, panicked: &Panicked) -> Result<BTreeSet<Arc<str>>, StoreError> {
        tracing::error!(task = TASK, %panicked, "reconciler panicked, starting it again without the resource that caused it");
        let snapshot = store.snapshot();
        self.watch = store.watch(snapshot.revision())?;
        let mut stored: Vec<Change> = snapshot.world().changes().collect();
        // The newest is the most likely to be at fault.
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

async fn advance(store: &Store, meshes: &Meshes, unfinished: &mut BTreeSet<Arc<str>>) {
    for mesh in std::mem::take(unfinished) {
        let step = meshes.get(&mesh).map_or(Step::Done, Progress::step);
        let next = match step {
            Step::Done => continue,
            Step::Wait(_) => {
                unfinished.insert(mesh);
                continue;
            }
            Step::Take(next) => next,
        };
        let snapshot = store.snapshot();
        let old = snapshot.world().get(&document::key(&mesh, ROLLOUT));
        match documents::write(store, &mesh, ROLLOUT, old.map(AsRef::as_ref), &next).await {
            Ok(true) => tracing::info!(mesh = &*mesh, step = next.token(), "Took a step of mTLS."),
            // What was written instead comes through the watch.
            Ok(false) => (),
            Err(error) => {
                tracing::warn!(%error, mesh = &*mesh, "Cannot store a step of mTLS; will try again.");
                unfinished.insert(mesh);
            }
        }
    }
}

/// `since` when each mesh waits.
fn report(meshes: &Meshes, unfinished: &BTreeSet<Arc<str>>, since: &mut BTreeMap<Arc<str>, Instant>) {
    since.retain(|mesh, _| unfinished.contains(mesh));
    for mesh in unfinished {
        let Some(Step::Wait(proxies)) = meshes.get(mesh).map(Progress::step) else {
            since.remove(mesh);
            continue;
        };
        let (mesh, count, waited) =
            (&**mesh, proxies.len(), since.entry(mesh.clone()).or_insert_with(Instant::now).elapsed());
        let named: Vec<_> = proxies.iter().take(MOST_NAMED).map(ToString::to_string).collect();
        let (proxies_waited_for, seconds) = (named.join(", "), waited.as_secs());
        if waited >= ALERT || proxies.iter().any(Waiting::is_rejected) {
            tracing::warn!(mesh, count, proxies_waited_for, seconds, "mTLS step is held up; fix or stop these proxies");
        } else {
            tracing::info!(mesh, count, proxies_waited_for, seconds, "mTLS step waits for proxies to acknowledge");
        }
    }
}
