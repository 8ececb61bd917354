//! Feeds changes of the store to the service reconciler.

use std::{collections::BTreeSet, sync::Arc};

use jiff::Timestamp;
use kodiak_catalog::external_source;
use kodiak_crypto::is_mismatch;
use kodiak_model::{
    ResourceKey,
    kinds::{
        dataplane::BackendKind, dataplane_insight::DataplaneInsight, hostname_generator::HostnameGenerator,
        mesh_external_service::MeshExternalService, mesh_multi_zone_service::MeshMultiZoneService,
        mesh_service::MeshService,
    },
};
use kodiak_rollout::Rollout;
use kodiak_services::{
    generated_services::is_managed,
    hostnames::{Generator, ServiceKey},
    service_status::{
        Content, DataplaneFacts, MeshFacts, Seen, ServiceReconciler, ServiceSettings, Stored, StoredVips,
        StoredWorkload, WorkloadKey,
    },
};
use kodiak_store::Snapshot;
use kodiak_world::{Change, Resource, document};

use kodiak_xds::external::tls;

use crate::documents;

/// Almost every proxy reports the CA file of its system; one that does not gets an error of its own.
const SYSTEM_CA: &str = "/etc/ssl/certs/ca-certificates.crt";

/// State of the service reconciler, built from the store's changes.
pub(super) struct ObservedState {
    pub(super) reconciler: ServiceReconciler,
    /// Version of the record with the allocation positions, for compare-and-swap.
    pub(super) positions: Option<u64>,
    /// MeshExternalServices with TLS, which may depend on Secrets of their mesh.
    with_tls: BTreeSet<ResourceKey>,
}

impl ObservedState {
    pub(super) fn new(settings: ServiceSettings, now: Timestamp) -> Self {
        Self { reconciler: ServiceReconciler::new(settings, now), positions: None, with_tls: BTreeSet::new() }
    }

    /// `snapshot` has at least this change.
    pub(super) fn change(&mut self, change: &Change, snapshot: &Snapshot) {
        let Change { key, resource, .. } = change;
        #[cfg(test)]
        super::tests::panic_at(key);
        let resource = resource.as_deref();
        let ResourceKey { kind, mesh, name } = key;
        match &**kind {
            "Mesh" => {
                self.mesh(name, snapshot);
                // Keys of its CAs are no certificates for others.
                self.secret(name, snapshot);
            }
            "Dataplane" => self.reconciler.set_dataplane(mesh, name, resource.and_then(dataplane_facts)),
            "DataplaneInsight" => {
                let insight = resource.and_then(kodiak_world::Resource::spec::<DataplaneInsight>);
                self.reconciler.set_seen(mesh, name, insight.map(|insight| Seen::of(&insight)));
            }
            "HostnameGenerator" => self.reconciler.set_generator(name, resource.and_then(generator)),
            "MeshService" => self.service(BackendKind::MeshService, key, resource.and_then(service)),
            "MeshExternalService" => self.external(key, resource, snapshot),
            "Secret" => self.secret(mesh, snapshot),
            "MeshMultiZoneService" => {
                self.service(BackendKind::MeshMultiZoneService, key, resource.and_then(multi_zone));
            }
            "Workload" => {
                let key = WorkloadKey { mesh: mesh.clone(), name: name.clone() };
                self.reconciler.set_workload(&key, resource.map(workload));
            }
            "Config" if *key == document::service_addresses() => {
                // Without the version of an unreadable record, no write replaces it.
                let read = resource.and_then(|record| Some((record.version, documents::read(record)?)));
                self.positions = read.as_ref().map(|(version, _)| *version);
                if let Some((_, positions)) = read {
                    self.reconciler.set_positions(positions);
                }
            }
            _ if *key == document::key(mesh, document::ROLLOUT) => self.mesh(mesh, snapshot),
            _ if *key == document::key(mesh, document::VIPS) => {
                let stored = resource
                    .map(|record| documents::read(record).map(|vips| StoredVips { vips, version: record.version }));
                // Addresses that cannot be read stay as they are.
                match stored {
                    Some(None) => (),
                    Some(readable) => self.reconciler.set_vips(mesh, readable),
                    None => self.reconciler.set_vips(mesh, None),
                }
            }
            _ => (),
        }
    }

    /// The mesh or its rollout changed.
    fn mesh(&mut self, name: &Arc<str>, snapshot: &Snapshot) {
        let world = snapshot.world();
        let record = world.get(&document::key(name, document::ROLLOUT));
        if document::read::<Rollout>(record.map(|record| &**record)).is_err() {
            // The SPIFFE IDs of the last step that could be read stay.
            return;
        }
        let facts = world.mesh(name).map(|mesh| {
            let rollout = kodiak_identity::current(world, name).unwrap_or_default();
            let mtls = mesh.enabled_backend().is_some() || !rollout.issuers.is_empty();
            MeshFacts { mode: mesh.mesh_services_mode(), mtls, rollout: Arc::new(rollout) }
        });
        self.reconciler.set_mesh(name, facts);
    }

    fn external(&mut self, key: &ResourceKey, resource: Option<&Resource>, snapshot: &Snapshot) {
        let spec = resource.and_then(Resource::spec::<MeshExternalService>);
        if spec.as_ref().is_some_and(|spec| spec.tls.is_some()) {
            self.with_tls.insert(key.clone());
        } else {
            self.with_tls.remove(key);
        }
        let fault = spec.and_then(|spec| tls_fault(&spec, &key.mesh, snapshot));
        let content = resource.map(|resource| (resource, Content::External { fault, status: status_of(resource) }));
        self.service(BackendKind::MeshExternalService, key, content);
    }

    /// Secrets of a mesh changed.
    fn secret(&mut self, mesh: &str, snapshot: &Snapshot) {
        let first = ResourceKey::in_mesh("MeshExternalService", mesh, "");
        let dependent = self.with_tls.range(first..).take_while(|key| &*key.mesh == mesh);
        for key in dependent.cloned().collect::<Vec<_>>() {
            // Its own change follows when the snapshot does not have it any more.
            if let Some(resource) = snapshot.world().get(&key) {
                self.external(&key, Some(resource), snapshot);
            }
        }
    }

    fn service(&mut self, kind: BackendKind, key: &ResourceKey, found: Option<(&Resource, Content)>) {
        let key = ServiceKey { kind, mesh: key.mesh.clone(), name: key.name.clone() };
        let stored = found.map(|(resource, content)| Stored {
            labels: resource.labels.clone(),
            created: resource.created,
            version: resource.version,
            status_version: resource.status_version,
            content,
        });
        self.reconciler.set_service(&key, stored);
    }
}

fn dataplane_facts(resource: &Resource) -> Option<DataplaneFacts> {
    let proxy = resource.proxy()?;
    Some(DataplaneFacts {
        labels: resource.labels.clone(),
        created: resource.created,
        dataplane: proxy.dataplane.clone(),
        admission: proxy.admission.clone(),
    })
}

fn generator(resource: &Resource) -> Option<Generator> {
    let spec = resource.spec::<HostnameGenerator>().map(Arc::unwrap_or_clone)?;
    Some(Generator { labels: resource.labels.clone(), created: resource.created, spec })
}

/// An unreadable generated MeshService is generated again; an unreadable one of a user is not touched.
fn service(resource: &Resource) -> Option<(&Resource, Content)> {
    let generated_again = || is_managed(&resource.labels).then(MeshService::default);
    let readable = resource.spec::<MeshService>().filter(|_| resource.unreadable().is_none());
    let spec = readable.map(Arc::unwrap_or_clone).or_else(generated_again)?;
    Some((resource, Content::Service { spec, status: status_of(resource) }))
}

fn multi_zone(resource: &Resource) -> Option<(&Resource, Content)> {
    let spec = resource.spec::<MeshMultiZoneService>().map(Arc::unwrap_or_clone)?;
    Some((resource, Content::MultiZone { spec, status: status_of(resource) }))
}

fn workload(resource: &Resource) -> StoredWorkload {
    StoredWorkload {
        labels: resource.labels.clone(),
        version: resource.version,
        status_version: resource.status_version,
        status: status_of(resource),
    }
}

/// Why the engine cannot configure its TLS settings, whatever the proxy.
fn tls_fault(spec: &MeshExternalService, mesh: &str, snapshot: &Snapshot) -> Option<String> {
    let endpoints = spec.endpoints.as_deref().unwrap_or_default();
    let mut read = |source: &_| external_source(snapshot, mesh, source);
    match tls(spec.tls.as_ref()?, endpoints, Some(SYSTEM_CA), &mut read) {
        Err(error) => Some(format!("{error}. Proxies have no endpoints of this service until this is corrected.")),
        Ok(configured) => {
            let (certificate, key) = configured?.client?;
            let text = "spec.tls.verification.clientKey does not belong to clientCert. Proxies use the pair that matched \
                        last, or have no endpoints of this service if there was none, until this is corrected.";
            is_mismatch(certificate.as_bytes(), key.as_bytes()).then(|| text.to_owned())
        }
    }
}

fn status_of<T: Clone + Default + Send + Sync + 'static>(resource: &Resource) -> T {
    Arc::unwrap_or_clone(resource.status())
}
