//! Stored resources that this crate reads: one function for each question.

use std::sync::Arc;

use kodiak_model::{
    ProxyKey,
    kinds::{
        dataplane::DataplaneStatus,
        dataplane_insight::{self, DataplaneInsight},
        mesh::Mesh,
    },
};
use kodiak_store::{Record, Snapshot};

use crate::dataplane::EffectiveDataplane;

/// `None` also for a Mesh that was never readable: nobody joins a mesh whose settings are unknown.
pub(crate) fn mesh(snapshot: &Snapshot, name: &str) -> Option<Arc<Mesh>> {
    snapshot.world().mesh(name)
}

pub(crate) fn dataplane(snapshot: &Snapshot, key: &ProxyKey) -> Option<EffectiveDataplane> {
    let proxy = snapshot.world().proxy(key)?;
    Some(EffectiveDataplane { labels: (*proxy.labels).clone(), spec: (*proxy.dataplane).clone() })
}

/// Defaults where there is no Dataplane, or its status is unreadable.
pub(crate) fn dataplane_status(snapshot: &Snapshot, key: &ProxyKey) -> Arc<DataplaneStatus> {
    snapshot.world().get(&key.dataplane()).map(|dataplane| dataplane.status()).unwrap_or_default()
}

pub(crate) fn insight_of(snapshot: &Snapshot, key: &ProxyKey) -> Option<Arc<DataplaneInsight>> {
    snapshot.world().insight(key)
}

/// All insights, to be changed and written back.
pub(crate) fn insights(snapshot: &Snapshot) -> impl Iterator<Item = (ProxyKey, &Record, DataplaneInsight)> {
    snapshot.list(dataplane_insight::KIND.name).filter_map(|record| {
        let key = ProxyKey { mesh: record.key.mesh.clone(), name: record.key.name.clone() };
        let insight = insight_of(snapshot, &key)?;
        Some((key, record, Arc::unwrap_or_clone(insight)))
    })
}
