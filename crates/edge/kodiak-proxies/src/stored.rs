//! Stored resources that this crate reads: one function for each question, and nothing else decodes a spec.

use kodiak_catalog::spec_of;
use kodiak_model::{
    ProxyKey, ResourceKey,
    kinds::{
        dataplane_insight::{self, DataplaneInsight},
        mesh::Mesh,
        mesh_identity::MeshIdentity,
    },
};
use kodiak_store::{Record, Snapshot};

use crate::dataplane::EffectiveDataplane;

/// An unreadable Mesh is the default one.
pub(crate) fn mesh(snapshot: &Snapshot, name: &str) -> Option<Mesh> {
    let record = snapshot.get(&ResourceKey::global("Mesh", name))?;
    Some(spec_of(record).unwrap_or_default())
}

pub(crate) fn dataplane(snapshot: &Snapshot, key: &ProxyKey) -> Option<EffectiveDataplane> {
    let record = snapshot.get(&key.dataplane())?;
    Some(EffectiveDataplane { labels: (*record.labels).clone(), spec: spec_of(record)? })
}

/// MeshIdentities of a mesh, in the order of their names.
pub(crate) fn identities(snapshot: &Snapshot, mesh: &str) -> impl Iterator<Item = MeshIdentity> {
    snapshot.list_in("MeshIdentity", mesh).filter_map(spec_of)
}

pub(crate) fn insight_key(key: &ProxyKey) -> ResourceKey {
    ResourceKey::in_mesh(dataplane_insight::KIND.name, &key.mesh, &key.name)
}

pub(crate) fn insight(record: &Record) -> Option<DataplaneInsight> {
    spec_of(record)
}

pub(crate) fn insight_of(snapshot: &Snapshot, key: &ProxyKey) -> Option<DataplaneInsight> {
    insight(snapshot.get(&insight_key(key))?)
}

pub(crate) fn insights(snapshot: &Snapshot) -> impl Iterator<Item = (ProxyKey, &Record, DataplaneInsight)> {
    snapshot.list(dataplane_insight::KIND.name).filter_map(|record| {
        let key = ProxyKey { mesh: record.key.mesh.clone(), name: record.key.name.clone() };
        Some((key, record, insight(record)?))
    })
}
