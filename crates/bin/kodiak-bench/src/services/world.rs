//! Service reconciler and engine in one process, with the stored resources between them.

use std::{collections::BTreeMap, sync::Arc};

use jiff::{SignedDuration, Timestamp};
use kodiak_engine::{Engine, EngineChange, offline::Placeholders};
use kodiak_model::{
    ProxyKey, ResourceKey,
    kinds::mesh_service::{self, MeshServiceStatus},
    language,
};
use kodiak_rules::Proxy;
use kodiak_services::{
    hostnames::ServiceKey,
    service_status::{
        self, Content, DataplaneFacts, MeshFacts, Seen, ServiceReconciler, Status, Stored, StoredVips, Wanted,
        WantedVips, Write,
    },
};
use kodiak_world::Resource;
use kodiak_xds::node::NodeMetadata;

use super::{
    mesh::{MESH, ZONE, generator, mesh, metadata},
    work::Work,
};

/// Fixed clock, long after the start, so that no grace period is running.
pub(super) const NOW: Timestamp = Timestamp::constant(1_800_000_000, 0);
const LONG: SignedDuration = SignedDuration::from_hours(1);
const ONLINE: Seen = Seen { online: true, left: None, certified: true };

pub(super) struct World {
    reconciler: ServiceReconciler,
    engine: Engine,
    /// Stored MeshServices.
    services: BTreeMap<ServiceKey, Stored>,
    metadata: Arc<NodeMetadata>,
    woken: u64,
}

impl World {
    pub(super) fn new() -> Self {
        let settings = kodiak_engine::EngineSettings { zone: ZONE.into(), ..kodiak_engine::EngineSettings::default() };
        Self {
            reconciler: ServiceReconciler::new(service_status::ServiceSettings::default(), NOW - LONG),
            engine: Engine::new(settings),
            services: BTreeMap::new(),
            metadata: Arc::new(metadata()),
            woken: 0,
        }
    }

    /// Writes the mesh and all its Dataplanes, then connects all proxies.
    pub(super) fn fill(&mut self, proxies: &[Arc<Proxy>]) -> anyhow::Result<()> {
        let mesh = mesh()?;
        let (mode, mtls) = (mesh.mesh_services_mode(), mesh.enabled_backend().is_some());
        let facts = MeshFacts { mode, mtls, rollout: Arc::default() };
        self.reconciler.set_mesh(&MESH.into(), Some(facts));
        self.reconciler.set_generator(&"local-universal-mesh-service".into(), Some(generator()?));
        self.configure([EngineChange::Mesh { name: MESH.into(), mesh: Some(mesh), reachability: None }])?;
        self.write(proxies)?;
        self.connect(proxies)
    }

    /// Writes Dataplanes.
    pub(super) fn write(&mut self, proxies: &[Arc<Proxy>]) -> anyhow::Result<()> {
        for Proxy { mesh, name, labels, dataplane, admission } in proxies.iter().map(|proxy| &**proxy) {
            let facts = DataplaneFacts {
                labels: labels.clone(),
                created: NOW,
                dataplane: dataplane.clone(),
                admission: admission.clone(),
            };
            self.reconciler.set_dataplane(mesh, name, Some(facts));
        }
        self.configure(
            proxies.iter().map(|proxy| EngineChange::Dataplane { key: key(proxy), dataplane: Some(proxy.clone()) }),
        )?;
        self.settle()
    }

    /// Connects their proxies, and writes their insights.
    pub(super) fn connect(&mut self, proxies: &[Arc<Proxy>]) -> anyhow::Result<()> {
        let metadata = self.metadata.clone();
        self.configure(
            proxies.iter().map(|proxy| EngineChange::Connected { key: key(proxy), metadata: metadata.clone() }),
        )?;
        for Proxy { mesh, name, .. } in proxies.iter().map(|proxy| &**proxy) {
            self.reconciler.set_seen(mesh, name, Some(ONLINE));
        }
        self.settle()
    }

    /// Removes a proxy with its Dataplane and insight.
    pub(super) fn remove(&mut self, proxy: &Proxy) -> anyhow::Result<()> {
        self.configure([
            EngineChange::Disconnected { key: key(proxy) },
            EngineChange::Dataplane { key: key(proxy), dataplane: None },
        ])?;
        self.reconciler.set_seen(&proxy.mesh, &proxy.name, None);
        self.reconciler.set_dataplane(&proxy.mesh, &proxy.name, None);
        self.settle()
    }

    pub(super) fn work(&self) -> Work {
        let service_status::Work { services_looked_at, spec_writes, status_writes, .. } = self.reconciler.work();
        let (encoded, woken) = (self.engine.encoded(), self.woken);
        Work { looked_at: services_looked_at, spec_writes, status_writes, encoded, woken }
    }

    /// Applies the writes of the reconciler until there are none.
    fn settle(&mut self) -> anyhow::Result<()> {
        loop {
            let due = self.reconciler.due(NOW);
            if let Some(positions) = due.positions.clone() {
                self.reconciler.set_positions(positions);
            }
            if !due.has_writes() {
                return Ok(());
            }
            let mut changes = Vec::with_capacity(due.writes.len());
            for WantedVips { mesh, vips, version } in due.vips {
                let stored = StoredVips { vips: vips.clone(), version: version.unwrap_or_default() + 1 };
                self.reconciler.set_vips(&mesh, Some(stored));
                changes.push(EngineChange::Vips { mesh, vips: Some(Arc::new(vips)) });
            }
            for Wanted { key, write } in due.writes {
                let stored = store(self.services.remove(&key), write)?;
                changes.push(change(&key, stored.as_ref()));
                self.reconciler.set_service(&key, stored.clone());
                self.services.extend(stored.map(|stored| (key, stored)));
            }
            self.configure(changes)?;
        }
    }

    fn configure(&mut self, changes: impl IntoIterator<Item = EngineChange>) -> anyhow::Result<()> {
        let outcome = self.engine.apply(changes, &Placeholders, NOW);
        self.woken += outcome.stats.woken;
        if let Some(faulty) = outcome.proxies.iter().find(|updated| !updated.faults.is_empty()) {
            anyhow::bail!("configuration of {} failed validation: {}", faulty.key.name, faulty.faults.join("; "));
        }
        Ok(())
    }
}

fn key(proxy: &Proxy) -> ProxyKey {
    ProxyKey { mesh: proxy.mesh.clone(), name: proxy.name.clone() }
}

/// Stored resource after a write.
fn store(before: Option<Stored>, write: Write) -> anyhow::Result<Option<Stored>> {
    let Some(mut stored) = before else {
        let Write::Put { labels, spec, .. } = write else { anyhow::bail!("a deleted resource has no status") };
        let content = Content::Service { spec, status: MeshServiceStatus::default() };
        let labels = Arc::new(labels);
        return Ok(Some(Stored { labels, created: NOW, version: 1, status_version: None, content }));
    };
    match (write, &mut stored.content) {
        (Write::Put { labels, spec, .. }, Content::Service { spec: old, .. }) => {
            *old = spec;
            stored.labels = Arc::new(labels);
            stored.version += 1;
        }
        (Write::Status { status: Status::Service(status), .. }, Content::Service { status: old, .. }) => {
            *old = status;
            stored.status_version = Some(stored.status_version.unwrap_or_default() + 1);
        }
        (Write::Delete { .. }, _) => return Ok(None),
        _ => anyhow::bail!("unexpected kind: only MeshServices are used"),
    }
    Ok(Some(stored))
}

/// EngineChange for the engine, decoded from the stored text.
fn change(key: &ServiceKey, stored: Option<&Stored>) -> EngineChange {
    let ServiceKey { kind, mesh, name } = key;
    let destination = stored.and_then(|Stored { labels, created, content, .. }| {
        let Content::Service { spec, status } = content else { return None };
        let resource = Resource::decode(kodiak_world::Stored {
            key: &ResourceKey::in_mesh(mesh_service::KIND.name, mesh, name),
            labels,
            created: *created,
            version: 1,
            status_version: 1,
            revision: 1,
            spec: &language::to_json(spec).into(),
            status: Some(&language::to_json(status).into()),
        });
        resource.destination().cloned()
    });
    EngineChange::Destination { mesh: mesh.clone(), kind: *kind, name: name.clone(), destination }
}

#[cfg(test)]
mod tests {
    use kodiak_xds_stream::TypeUrl;

    use super::*;
    use crate::services::mesh::{CALLS, Health, Size};

    fn filled() -> (World, Size) {
        let size = Size::of(30, 2).unwrap();
        let proxies: Vec<_> = (0..size.dataplanes()).map(|n| size.proxy(n).unwrap()).collect();
        let mut world = World::new();
        world.fill(&proxies).unwrap();
        (world, size)
    }

    fn counted(world: &World) -> Vec<(Arc<str>, [u32; 3])> {
        let all = world.services.iter().map(|(key, stored)| {
            let Content::Service { status, .. } = &stored.content else { panic!("no MeshService") };
            let proxies = &status.dataplane_proxies;
            (key.name.clone(), [proxies.connected, proxies.healthy, proxies.total])
        });
        all.collect()
    }

    #[test]
    fn a_proxy_has_clusters_of_reachable_services_by_tag_and_by_object() {
        let (world, size) = filled();
        let snapshot = world.engine.snapshot(&key(&size.proxy(0).unwrap())).unwrap();
        let (objects, tags): (Vec<_>, Vec<_>) =
            snapshot.of(TypeUrl::Endpoint).keys().partition(|name| name.contains("_msvc_"));
        assert_eq!((objects.len(), tags.len()), (CALLS, CALLS), "{objects:?} {tags:?}");
        assert!(counted(&world).iter().all(|(_, counts)| *counts == [2, 2, 2]), "{:?}", counted(&world));
    }

    #[test]
    fn counts_an_added_instance_until_it_is_removed() {
        let (mut world, size) = filled();
        let before = counted(&world);
        let (ready, not_ready) = (size.guest(0, Health::Ready).unwrap(), size.guest(0, Health::NotReady).unwrap());
        let one_is = |world: &World, counts: [u32; 3]| {
            let others: Vec<_> = counted(world).into_iter().filter(|each| !before.contains(each)).collect();
            assert_eq!(others.into_iter().map(|(_, counts)| counts).collect::<Vec<_>>(), [counts]);
        };
        world.write(std::slice::from_ref(&ready)).unwrap();
        one_is(&world, [2, 2, 3]);
        world.connect(std::slice::from_ref(&ready)).unwrap();
        one_is(&world, [3, 3, 3]);
        world.write(std::slice::from_ref(&not_ready)).unwrap();
        one_is(&world, [3, 2, 3]);
        world.remove(&ready).unwrap();
        assert_eq!(counted(&world), before);
    }
}
