//! What the store says, in the words of the keeper.

use std::sync::Arc;

use jiff::Timestamp;
use kodiak_catalog::{admission_of, spec_of};
use kodiak_model::{
    ResourceKey,
    kinds::{
        dataplane::{BackendKind, Dataplane},
        dataplane_insight::DataplaneInsight,
        hostname_generator::HostnameGenerator,
        mesh::Mesh,
        mesh_multi_zone_service::MeshMultiZoneService,
        mesh_service::MeshService,
    },
};
use kodiak_store::{Change, ChangeKind, Record};
use kodiak_views::{
    generated_services::is_managed,
    hostnames::{Generator, ServiceKey},
    service_status::{Content, DataplaneFacts, Keeper, MeshFacts, Seen, Settings, Stored},
};
use serde::de::DeserializeOwned;

use super::write;
use crate::documents;

/// The keeper, and what it was told with.
pub(super) struct Told {
    pub(super) keeper: Keeper,
    /// The version of the record with the positions, which is told with them.
    pub(super) positions: Option<u64>,
}

impl Told {
    pub(super) fn new(settings: Settings, now: Timestamp) -> Self {
        Self { keeper: Keeper::new(settings, now), positions: None }
    }

    pub(super) fn change(&mut self, change: &Change) {
        match &change.kind {
            ChangeKind::Put(record) => self.record(&change.key, Some(record)),
            ChangeKind::Deleted => self.record(&change.key, None),
        }
    }

    pub(super) fn record(&mut self, key: &ResourceKey, record: Option<&Record>) {
        #[cfg(test)]
        super::tests::panic_at(key);
        let ResourceKey { kind, mesh, name } = key;
        match &**kind {
            "Mesh" => self.keeper.set_mesh(name, record.and_then(spec_of).map(|mesh| mesh_facts(&mesh))),
            "Dataplane" => self.keeper.set_dataplane(mesh, name, record.and_then(dataplane_facts)),
            "DataplaneInsight" => {
                let seen = record.and_then(spec_of::<DataplaneInsight>).map(|insight| Seen::of(&insight));
                self.keeper.set_seen(mesh, name, seen);
            }
            "HostnameGenerator" => self.keeper.set_generator(name, record.and_then(generator)),
            "MeshService" => self.service(BackendKind::MeshService, key, record.and_then(service)),
            "MeshExternalService" => {
                let content = record.map(|record| Content::External { status: status_of(record) });
                self.service(BackendKind::MeshExternalService, key, record.zip(content));
            }
            "MeshMultiZoneService" => {
                self.service(BackendKind::MeshMultiZoneService, key, record.and_then(multi_zone));
            }
            "Config" if *key == write::positions_key() => {
                self.positions = record.map(|record| record.version);
                if let Some(positions) = record.and_then(documents::read) {
                    self.keeper.set_positions(positions);
                }
            }
            _ => (),
        }
    }

    fn service(&mut self, kind: BackendKind, key: &ResourceKey, found: Option<(&Record, Content)>) {
        let key = ServiceKey { kind, mesh: key.mesh.clone(), name: key.name.clone() };
        let stored = found.map(|(record, content)| Stored {
            labels: record.labels.clone(),
            created: record.created,
            version: record.version,
            status_version: record.status.as_ref().map(|_| record.status_version),
            content,
        });
        self.keeper.set_service(&key, stored);
    }
}

fn mesh_facts(mesh: &Mesh) -> MeshFacts {
    MeshFacts { mode: mesh.mesh_services_mode(), mtls: mesh.enabled_backend().is_some() }
}

fn dataplane_facts(record: &Record) -> Option<DataplaneFacts> {
    let dataplane: Dataplane = spec_of(record)?;
    Some(DataplaneFacts {
        labels: record.labels.clone(),
        created: record.created,
        dataplane: Arc::new(dataplane),
        admission: admission_of(record).map(Arc::new),
    })
}

fn generator(record: &Record) -> Option<Generator> {
    let spec: HostnameGenerator = spec_of(record)?;
    Some(Generator { labels: record.labels.clone(), created: record.created, spec })
}

/// One that cannot be read is made anew when it was generated, and left alone otherwise.
fn service(record: &Record) -> Option<(&Record, Content)> {
    let again = || is_managed(&record.labels).then(MeshService::default);
    let spec = spec_of(record).or_else(again)?;
    Some((record, Content::Service { spec, status: status_of(record) }))
}

fn multi_zone(record: &Record) -> Option<(&Record, Content)> {
    let spec: MeshMultiZoneService = spec_of(record)?;
    Some((record, Content::MultiZone { spec, status: status_of(record) }))
}

/// A status that cannot be read is made anew.
fn status_of<T: DeserializeOwned + Default>(record: &Record) -> T {
    record.status.as_ref().and_then(|status| serde_json::from_str(status).ok()).unwrap_or_default()
}
