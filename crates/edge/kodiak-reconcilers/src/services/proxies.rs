//! What the Dataplanes of each mesh serve, kept up to date by changes of the store: many proxies, read once each.

use std::{collections::BTreeMap, sync::Arc};

use jiff::Timestamp;
use kodiak_catalog::spec_of;
use kodiak_model::{
    ResourceKey,
    kinds::dataplane::{Dataplane, Inbound},
};
use kodiak_store::{Change, ChangeKind};
use kodiak_views::generated_services::Proxy;

#[derive(Default)]
pub(super) struct Proxies(BTreeMap<Arc<str>, BTreeMap<Arc<str>, Served>>);

#[derive(PartialEq)]
struct Served {
    created: Timestamp,
    inbounds: Vec<Inbound>,
}

impl Proxies {
    /// The mesh whose MeshServices may be different now.
    pub(super) fn apply(&mut self, change: &Change) -> Option<Arc<str>> {
        let Change { key, kind, .. } = change;
        match &*key.kind {
            "Mesh" => Some(key.name.clone()),
            "MeshService" => Some(key.mesh.clone()),
            "Dataplane" => self.dataplane(key, kind).then(|| key.mesh.clone()),
            _ => None,
        }
    }

    pub(super) fn of(&self, mesh: &str) -> Vec<Proxy<'_>> {
        let served = self.0.get(mesh).into_iter().flatten();
        served.map(|(name, served)| Proxy { name, created: served.created, inbounds: &served.inbounds }).collect()
    }

    /// Whether it serves something else than before.
    fn dataplane(&mut self, key: &ResourceKey, kind: &ChangeKind) -> bool {
        let served = match kind {
            ChangeKind::Put(record) => spec_of::<Dataplane>(record)
                .and_then(|dataplane| dataplane.networking)
                .map(|networking| Served { created: record.created, inbounds: networking.inbound })
                .filter(|served| !served.inbounds.is_empty()),
            ChangeKind::Deleted => None,
        };
        let mesh = self.0.entry(key.mesh.clone()).or_default();
        let before = mesh.remove(&key.name);
        let changed = before != served;
        mesh.extend(served.map(|served| (key.name.clone(), served)));
        if mesh.is_empty() {
            self.0.remove(&key.mesh);
        }
        changed
    }
}
