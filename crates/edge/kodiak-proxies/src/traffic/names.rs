//! Names of clusters, looked up once for many reports.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use kodiak_store::Snapshot;
use kodiak_traffic::ClusterNames;
use tokio::time::Instant;

/// Time for which names are used although the store has changed. A report covers more.
const FRESH: Duration = Duration::from_secs(1);

#[derive(Default)]
pub(super) struct NameCache(Mutex<BTreeMap<Arc<str>, Cached>>);

struct Cached {
    revision: u64,
    made: Instant,
    names: Arc<ClusterNames>,
}

impl NameCache {
    pub(super) fn of(&self, snapshot: &Snapshot, mesh: &Arc<str>) -> Arc<ClusterNames> {
        let lock = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(cached) = lock().get(mesh)
            && (cached.revision >= snapshot.revision() || cached.made.elapsed() < FRESH)
        {
            return cached.names.clone();
        }
        let (revision, made) = (snapshot.revision(), Instant::now());
        let names = Arc::new(ClusterNames::of(snapshot.world(), mesh));
        lock().insert(mesh.clone(), Cached { revision, made, names: names.clone() });
        names
    }

    /// Keeps the names of these meshes only.
    pub(super) fn retain(&self, exists: impl Fn(&str) -> bool) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).retain(|mesh, _| exists(mesh));
    }
}
