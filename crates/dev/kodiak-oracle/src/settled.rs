//! Documents as the control plane stores them, with the MeshServices, addresses and hostnames that its reconciler adds.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use kodiak_engine::{EngineChange, EngineSettings, offline::OfflineMesh};
use kodiak_model::kinds::hostname_generator::HostnameGenerator;
use kodiak_model::kinds::mesh::Mesh;
use kodiak_model::kinds::mesh_multi_zone_service::MeshMultiZoneService;
use kodiak_model::kinds::mesh_service::MeshService;
use kodiak_model::{Labels, ProxyKey, ResourceKey, Word as _, language};
use kodiak_reachability::Mode;
use kodiak_services::generated_services::Rules;
use kodiak_services::hostnames::{Generator, ServiceKey};
use kodiak_services::service_status::{
    self, Content, DataplaneFacts, MeshFacts, Seen, ServiceReconciler, ServiceSettings, Status, StoredVips, Wanted,
    WantedVips, Write,
};
use kodiak_services::vips::Vips;
use kodiak_world::destination::KINDS;
use kodiak_world::{Resource, World, document};
use serde_json::{Value, json};

use crate::documents::{self, ZONE};
use crate::meshes::MESH;
use crate::{Certificates, Oracle};

/// Fixed clock, long after the start, so that no grace period is running.
const NOW: Timestamp = Timestamp::constant(1_800_000_000, 0);
const ONLINE: Seen = Seen { online: true, left: None, certified: true };
/// Rounds of writes: a service is created, then gets its address, then its hostname.
const MOST_ROUNDS: usize = 10;

/// A mesh at rest, with all proxies connected.
#[derive(Default)]
pub struct Settled {
    pub world: World,
    records: BTreeMap<ResourceKey, Record>,
}

#[derive(Clone)]
struct Record {
    labels: Arc<Labels>,
    version: u64,
    status_version: u64,
    spec: Arc<str>,
    status: Option<Arc<str>>,
}

impl Settled {
    /// Fails with the error of the first invalid document.
    pub fn of(documents: Vec<Value>) -> Result<Self, String> {
        let mut settled = Self::default();
        for document in documents {
            let checked = documents::resource(document)?;
            let key = ResourceKey::in_mesh(checked.kind.name, &checked.mesh, &checked.name);
            settled.put(&key, &checked.labels, checked.spec());
        }
        settled.roll_out();
        settled.reconcile();
        Ok(settled)
    }

    /// All resources of the mesh.
    pub fn changes(&self) -> Vec<EngineChange> {
        EngineChange::of_mesh(&self.world, MESH)
    }

    /// Addresses and ports of all destinations, with their names.
    pub fn destinations(&self) -> Vec<(String, Ipv4Addr, u16)> {
        let objects = self.world.destinations(MESH).flat_map(|destination| {
            let all =
                destination.vips.iter().flat_map(|vip| destination.ports.iter().map(move |port| (*vip, port.port)));
            all.map(|(vip, port)| (destination.kri.to_string(), vip, u16::try_from(port).unwrap()))
        });
        let vips = self.world.get(&document::key(MESH, document::VIPS)).and_then(|stored| stored.document::<Vips>());
        let vips = vips.unwrap_or_default();
        let tags = vips.iter().map(|(name, vip)| (name.to_string(), vip, 80));
        objects.chain(tags).collect()
    }

    pub fn proxies(&self) -> Vec<ProxyKey> {
        self.world.proxies(MESH).map(|proxy| ProxyKey::new(MESH, &proxy.name)).collect()
    }

    /// Connects all proxies; those with their faults.
    pub fn connect(&self, engine: &mut OfflineMesh) -> BTreeMap<ProxyKey, Vec<String>> {
        let redirects = |key: &ProxyKey| {
            let proxy = self.world.proxy(key).unwrap();
            proxy.dataplane.networking.as_ref().is_some_and(|networking| networking.transparent_proxying.is_some())
        };
        let metadata = |key: &ProxyKey| Arc::new(documents::metadata(redirects(key)));
        engine.connect_all(self.proxies().into_iter().map(|key| (key.clone(), metadata(&key))))
    }

    /// The Envoys of the mesh. `mode` is the setting of the control plane.
    pub fn oracle(&self, mode: Mode) -> Oracle {
        let mut engine =
            OfflineMesh::with_identities(settings(mode), MESH, self.changes(), Arc::new(Certificates)).unwrap();
        self.connect(&mut engine);
        let snapshots = self.proxies().into_iter().map(|key| (key.name.clone(), engine.snapshot(&key).unwrap()));
        let snapshots: Vec<_> = snapshots.collect();
        Oracle::of(snapshots.iter().map(|(name, snapshot)| (&**name, &snapshot.resources))).unwrap()
    }

    /// The mesh is at the target of its rollout.
    fn roll_out(&mut self) {
        for (name, document) in [
            (document::IDENTITIES, json!(kodiak_identity::desired(&self.world, MESH))),
            (document::ROLLOUT, json!(kodiak_identity::target(&self.world, MESH))),
        ] {
            self.put(&document::key(MESH, name), &Labels::new(), &document.to_string());
        }
    }

    fn put(&mut self, key: &ResourceKey, labels: &Labels, spec: &str) {
        let before = self.records.get(key).cloned();
        let (status, status_version) = before.as_ref().map_or((None, 0), |it| (it.status.clone(), it.status_version));
        let version = before.map_or(0, |before| before.version) + 1;
        self.store(
            key,
            Record { labels: Arc::new(labels.clone()), version, status_version, spec: spec.into(), status },
        );
    }

    fn store(&mut self, key: &ResourceKey, record: Record) {
        self.world.put(kodiak_world::Stored {
            key,
            labels: &record.labels,
            created: NOW,
            version: record.version,
            status_version: record.status_version,
            revision: record.version + record.status_version,
            spec: &record.spec,
            status: record.status.as_ref(),
        });
        self.records.insert(key.clone(), record);
    }

    fn reconcile(&mut self) {
        let settings = ServiceSettings {
            rules: Rules { zone: ZONE.to_owned(), ..Rules::default() },
            ..ServiceSettings::default()
        };
        let mut reconciler = ServiceReconciler::new(settings, NOW - SignedDuration::from_hours(1));
        let mut changed: Vec<ResourceKey> = self.records.keys().cloned().collect();
        for _ in 0..MOST_ROUNDS {
            for key in changed {
                self.observe(&mut reconciler, &key);
            }
            let due = reconciler.due(NOW);
            if let Some(positions) = due.positions {
                reconciler.set_positions(positions);
            }
            changed = due.vips.into_iter().map(|wanted| self.write_vips(wanted)).collect();
            changed.extend(due.writes.into_iter().map(|wanted| self.write(wanted)));
            if changed.is_empty() {
                return;
            }
        }
        panic!("the reconciler still writes after {MOST_ROUNDS} rounds: {changed:?}");
    }

    fn observe(&self, reconciler: &mut ServiceReconciler, key: &ResourceKey) {
        let ResourceKey { kind, mesh, name } = key;
        let resource = self.world.get(key);
        match &**kind {
            "Mesh" => {
                let spec = resource.and_then(|mesh| mesh.spec::<Mesh>()).unwrap();
                let rollout = kodiak_identity::current(&self.world, name).unwrap_or_default();
                let mtls = spec.enabled_backend().is_some() || !rollout.issuers.is_empty();
                let facts = MeshFacts { mode: spec.mesh_services_mode(), mtls, rollout: Arc::new(rollout) };
                reconciler.set_mesh(name, Some(facts));
            }
            "Dataplane" => {
                let proxy = resource.and_then(|dataplane| dataplane.proxy()).unwrap();
                let (labels, dataplane) = (proxy.labels.clone(), proxy.dataplane.clone());
                let facts = DataplaneFacts { labels, created: NOW, dataplane, admission: None };
                reconciler.set_dataplane(mesh, name, Some(facts));
                reconciler.set_seen(mesh, name, Some(ONLINE));
            }
            "HostnameGenerator" => {
                let generator = resource.map(|generator| Generator {
                    labels: generator.labels.clone(),
                    created: NOW,
                    spec: Arc::unwrap_or_clone(generator.spec::<HostnameGenerator>().unwrap()),
                });
                reconciler.set_generator(name, generator);
            }
            "Config" if document::name(key) == Some(document::VIPS) => {
                let vips = resource.and_then(|vips| vips.document::<Vips>()).unwrap();
                reconciler.set_vips(mesh, Some(StoredVips { vips, version: self.records[key].version }));
            }
            _ if let Some((_, kind)) = KINDS.iter().find(|(known, _)| *known.name == **kind) => {
                let key = ServiceKey { kind: *kind, mesh: mesh.clone(), name: name.clone() };
                reconciler.set_service(&key, resource.map(|resource| stored(resource)));
            }
            _ => (),
        }
    }

    fn write_vips(&mut self, WantedVips { mesh, vips, .. }: WantedVips) -> ResourceKey {
        let key = document::key(&mesh, document::VIPS);
        self.put(&key, &Labels::new(), &serde_json::to_string(&vips).unwrap());
        key
    }

    fn write(&mut self, Wanted { key: ServiceKey { kind, mesh, name }, write }: Wanted) -> ResourceKey {
        let key = ResourceKey::in_mesh(kind.text(), &mesh, &name);
        match write {
            Write::Put { labels, spec, .. } => self.put(&key, &labels, &language::to_json(&spec)),
            Write::Status { status, .. } => {
                let status = match status {
                    Status::Service(status) => language::to_json(&status),
                    Status::External(status) => language::to_json(&status),
                    Status::MultiZone(status) => language::to_json(&status),
                };
                let record = self.records[&key].clone();
                let status_version = record.status_version + 1;
                self.store(&key, Record { status: Some(status.into()), status_version, ..record });
            }
            Write::Delete { .. } => panic!("{key} is deleted, but no Dataplane was"),
        }
        key
    }
}

/// A mesh of these resources, without connected proxies.
pub fn offline(changes: impl IntoIterator<Item = EngineChange>) -> OfflineMesh {
    offline_with(Mode::Off, changes)
}

/// Like [`offline`], with a mode of reachability.
pub fn offline_with(mode: Mode, changes: impl IntoIterator<Item = EngineChange>) -> OfflineMesh {
    OfflineMesh::new(settings(mode), MESH, changes).unwrap()
}

fn settings(mode: Mode) -> EngineSettings {
    EngineSettings { zone: ZONE.into(), reachability: mode, ..EngineSettings::default() }
}

fn stored(resource: &Resource) -> service_status::Stored {
    let content = match &*resource.key.kind {
        "MeshService" => Content::Service {
            spec: Arc::unwrap_or_clone(resource.spec::<MeshService>().unwrap()),
            status: Arc::unwrap_or_clone(resource.status()),
        },
        "MeshExternalService" => Content::External { fault: None, status: Arc::unwrap_or_clone(resource.status()) },
        _ => Content::MultiZone {
            spec: Arc::unwrap_or_clone(resource.spec::<MeshMultiZoneService>().unwrap()),
            status: Arc::unwrap_or_clone(resource.status()),
        },
    };
    service_status::Stored {
        labels: resource.labels.clone(),
        created: resource.created,
        version: resource.version,
        status_version: resource.status_version,
        content,
    }
}
