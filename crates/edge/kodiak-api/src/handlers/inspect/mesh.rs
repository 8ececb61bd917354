//! Cache of mesh views for inspection, built from the store and reused until a resource of the mesh changes.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

use kodiak_inspection::inspect::MeshView;
use kodiak_kinds::kinds;
use kodiak_model::{Cancellation, Cancelled, Kind, ResourceKey, kinds::mesh};
use kodiak_store::Snapshot;

/// Views of the meshes that were inspected.
#[derive(Default)]
pub(crate) struct Meshes(Mutex<BTreeMap<String, CachedView>>);

struct CachedView {
    /// Newest store revision at which the view was up to date.
    revision: u64,
    fingerprint: Fingerprint,
    view: Arc<MeshView>,
}

/// Changes with every write of a resource that the view uses: a put raises the newest revision, and a delete lowers the
/// count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Fingerprint {
    count: usize,
    newest: u64,
}

impl Meshes {
    pub(crate) fn view(
        &self,
        snapshot: &Snapshot,
        mesh: &str,
        cancellation: &Cancellation,
    ) -> Result<Arc<MeshView>, Cancelled> {
        cancellation.check()?;
        let fingerprint = {
            let mut cached = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let cached = cached.get_mut(mesh);
            if let Some(cached) = cached.as_ref().filter(|cached| cached.revision == snapshot.revision()) {
                return Ok(cached.view.clone());
            }
            let fingerprint = Fingerprint::of(snapshot, mesh);
            if let Some(cached) = cached.filter(|cached| cached.fingerprint == fingerprint) {
                cached.revision = snapshot.revision();
                return Ok(cached.view.clone());
            }
            fingerprint
        };
        // The lock is not held, so that requests about other meshes do not wait.
        let view = Arc::new(MeshView::of(snapshot.world(), mesh, policies()));
        let mut cached = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        cached.retain(|name, _| snapshot.get(&ResourceKey::global(mesh::KIND.name, name)).is_some());
        cached.insert(mesh.to_owned(), CachedView { revision: snapshot.revision(), fingerprint, view: view.clone() });
        Ok(view)
    }
}

impl Fingerprint {
    fn of(snapshot: &Snapshot, mesh: &str) -> Self {
        let own = snapshot.get(&ResourceKey::global(mesh::KIND.name, mesh));
        let records = own.into_iter().chain(viewed_kinds().flat_map(|kind| snapshot.list_in(kind, mesh)));
        let mut fingerprint = Self { count: 0, newest: 0 };
        for record in records {
            fingerprint.count += 1;
            fingerprint.newest = fingerprint.newest.max(record.revision);
        }
        fingerprint
    }
}

/// Kinds that a view is built from.
fn viewed_kinds() -> impl Iterator<Item = &'static str> {
    let others = [
        "Dataplane",
        "MeshService",
        "MeshExternalService",
        "MeshMultiZoneService",
        "MeshIdentity",
        "MeshGateway",
        "MeshOpenTelemetryBackend",
    ];
    policies().into_iter().map(|kind| kind.name).chain(others)
}

/// Policy kinds, in the order in which they are applied.
fn policies() -> Vec<&'static Kind> {
    let mut policies: Vec<_> = kinds().iter().filter(|kind| kind.is_policy()).collect();
    policies.sort_by_key(|kind| kind.policy.map(|facts| facts.order));
    policies
}
