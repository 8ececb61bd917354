//! What is stored, as the engine is told of it.

use std::sync::Arc;

use kodiak_catalog::spec_of;
use kodiak_engine::{Change, Labelled};
use kodiak_model::{ProxyKey, ResourceKey, Spec, kinds::mesh::Mesh};
use kodiak_reconcilers::{ROLLOUT, VIPS};
use kodiak_store::{Record, Snapshot};

/// The kinds in a mesh that proxies depend on.
const IN_MESH: [&str; 3] = ["Dataplane", "MeshTrafficPermission", "Config"];

/// `None` for what no proxy depends on. Without a record it is gone.
pub(crate) fn of(key: &ResourceKey, record: Option<&Record>) -> Option<Change> {
    let (mesh, name) = (key.mesh.clone(), key.name.clone());
    Some(match &*key.kind {
        "Mesh" => Change::Mesh { name, mesh: record.and_then(spec_of::<Mesh>).map(Arc::new) },
        "Dataplane" => Change::Dataplane { key: ProxyKey { mesh, name }, dataplane: labelled(record) },
        "MeshTrafficPermission" => Change::Permission { mesh, name, policy: labelled(record) },
        "Secret" => Change::Authority { mesh },
        "Config" if &*name == VIPS => {
            Change::Vips { mesh, vips: record.and_then(kodiak_reconcilers::read).map(Arc::new) }
        }
        "Config" if &*name == ROLLOUT => Change::Rollout { mesh, rollout: record.and_then(kodiak_reconcilers::read) },
        _ => return None,
    })
}

/// All that a mesh is made of, for an engine that knows nothing yet.
pub(crate) fn of_mesh(snapshot: &Snapshot, mesh: &str) -> Vec<Change> {
    let itself = snapshot.get(&ResourceKey::global("Mesh", mesh));
    let within = IN_MESH.iter().flat_map(|kind| snapshot.list_in(kind, mesh));
    itself.into_iter().chain(within).filter_map(|record| of(&record.key, Some(record))).collect()
}

/// A stored resource that cannot be read hurts only itself: it counts as gone.
fn labelled<S: Spec>(record: Option<&Record>) -> Option<Arc<Labelled<S>>> {
    let record = record?;
    Some(Arc::new(Labelled { labels: record.labels.clone(), spec: spec_of::<S>(record)? }))
}
