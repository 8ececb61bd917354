//! Service reconciler: generated MeshServices, and the status of all services with proxy counts, state, identities,
//! virtual addresses and hostnames; the virtual addresses of `kuma.io/service` names; and generated Workloads with the
//! status of all Workloads. Updated by changes.
//!
//! **Invariant:** the result depends on the current inputs, not on the order of changes.
//! **Invariant:** the cost of a change is proportional to the services that it affects.
//! **Invariant:** equal state is not written.
//! **Invariant:** a service never loses its address.

mod conditions;
mod facts;
mod groups;
mod health;
mod look;
mod population;
mod tags;
#[cfg(test)]
mod tests;
mod uncertified;
mod unvouched;
mod workloads;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use jiff::Timestamp;
use kodiak_model::kinds::dataplane::BackendKind;

use population::Population;

use crate::{
    hostnames::{Generator, Hostnames, ServiceKey, TemplateFields},
    service_addresses::{AddressAllocator, FreedAddresses, Positions},
};
use kodiak_world::destination::KINDS;

pub use facts::{Content, DataplaneFacts, MeshFacts, Seen, ServiceSettings, Status, Stored, Wanted, Work, Write};
pub use tags::{StoredVips, TagsWithoutAddress, WantedVips};
pub use workloads::{StoredWorkload, WORKLOAD_MANAGER, WantedWorkload, WorkloadKey, WorkloadWrite};

/// Computes the writes that bring stored services to the desired state. All stored resources must be set before the
/// first call of `due`.
pub struct ServiceReconciler {
    settings: ServiceSettings,
    /// End of the time in which proxies may reconnect after an outage of the control plane.
    settled: Timestamp,
    meshes: BTreeMap<Arc<str>, Population>,
    services: BTreeMap<ServiceKey, Stored>,
    hostnames: Hostnames,
    addresses: AddressAllocator,
    /// Dataplanes whose ports differ from those of their MeshService.
    conflicts: BTreeMap<ServiceKey, Vec<Arc<str>>>,
    /// Dirty set: services to reconcile. Some do not exist yet.
    unsettled: BTreeSet<ServiceKey>,
    /// Dirty set: meshes whose `kuma.io/service` names may need addresses.
    unsettled_tags: BTreeSet<Arc<str>>,
    /// Dirty set: Workloads to reconcile. Some do not exist yet.
    unsettled_workloads: BTreeSet<WorkloadKey>,
    timers: BTreeMap<Timestamp, BTreeSet<Timer>>,
    /// Number of changes that affected a service or a Workload.
    notices: u64,
    work: Work,
}

/// Work that becomes due by time.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Timer {
    Service(ServiceKey),
    /// Dataplane whose proxy counts as offline from now on, by mesh and name.
    Proxy(Arc<str>, Arc<str>),
    /// Mesh in which the address of a deleted `kuma.io/service` name can be released.
    Tags(Arc<str>),
    Workload(WorkloadKey),
}

/// Pending writes and findings.
#[derive(Debug, Default, PartialEq)]
pub struct Due {
    /// Must be stored in each transaction of `writes`, which use the allocated addresses.
    pub positions: Option<Positions>,
    /// At most one write of spec and one of status per service.
    pub writes: Vec<Wanted>,
    /// At most one write per mesh.
    pub vips: Vec<WantedVips>,
    /// At most one write of spec and one of status per Workload.
    pub workloads: Vec<WantedWorkload>,
    /// Conflicts that were not reported before.
    pub conflicts: Vec<Conflict>,
    /// Services without an address because their range is exhausted.
    pub without_address: Vec<ServiceKey>,
    pub tags_without_address: Vec<TagsWithoutAddress>,
}

impl Due {
    pub fn has_writes(&self) -> bool {
        !self.writes.is_empty() || !self.vips.is_empty() || !self.workloads.is_empty()
    }
}

/// Dataplanes whose ports differ from those of their MeshService.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conflict {
    pub service: ServiceKey,
    pub dataplanes: Vec<Arc<str>>,
}

impl ServiceReconciler {
    pub fn new(settings: ServiceSettings, now: Timestamp) -> Self {
        Self {
            settled: now.checked_add(settings.connection_grace).unwrap_or(Timestamp::MAX),
            meshes: BTreeMap::new(),
            services: BTreeMap::new(),
            hostnames: Hostnames::new(&settings.rules.zone),
            addresses: AddressAllocator::new(settings.ranges),
            conflicts: BTreeMap::new(),
            unsettled: BTreeSet::new(),
            unsettled_tags: BTreeSet::new(),
            unsettled_workloads: BTreeSet::new(),
            timers: BTreeMap::new(),
            notices: 0,
            work: Work::default(),
            settings,
        }
    }

    pub fn set_mesh(&mut self, name: &Arc<str>, facts: Option<MeshFacts>) {
        let population = self.meshes.entry(name.clone()).or_default();
        if population.facts == facts {
            return self.forget(name);
        }
        population.facts = facts;
        let asked_for: Vec<_> = population.offers.services().cloned().collect();
        let workloads: Vec<_> = population.workloads.names().cloned().collect();
        self.concern(name, asked_for);
        self.note_workloads(name, workloads);
        for (_, kind) in KINDS {
            let all: Vec<_> = self.of_mesh(kind, name).cloned().collect();
            self.note(all);
        }
        self.note_tags(name);
        self.forget(name);
    }

    pub fn set_dataplane(&mut self, mesh: &Arc<str>, name: &Arc<str>, facts: Option<DataplaneFacts>) {
        let population = self.meshes.entry(mesh.clone()).or_default();
        let tags_changed = population.tags.set(name, facts.as_ref().map(|facts| &*facts.dataplane));
        let workloads = population.workloads.set_dataplane(name, facts.as_ref());
        let concerned = population.set_dataplane(&self.settings.rules, mesh, name, facts);
        self.concern(mesh, concerned);
        self.note_workloads(mesh, workloads);
        if tags_changed {
            self.note_tags(mesh);
        }
        self.forget(mesh);
    }

    pub fn set_seen(&mut self, mesh: &Arc<str>, name: &Arc<str>, seen: Option<Seen>) {
        let population = self.meshes.entry(mesh.clone()).or_default();
        if population.set_seen(name, seen) {
            self.concern_all_of(mesh, name);
            if let Some(end) = seen.and_then(|seen| seen.counts_until(self.settings.connection_grace)) {
                self.timers.entry(end).or_default().insert(Timer::Proxy(mesh.clone(), name.clone()));
            }
        }
        self.forget(mesh);
    }

    pub fn set_service(&mut self, key: &ServiceKey, stored: Option<Stored>) {
        let before = self.services.get(key);
        if before == stored.as_ref() {
            return;
        }
        let held = stored.as_ref().map(|stored| stored.addresses().collect());
        let freed = self.addresses.set_destination(key, before.into_iter().flat_map(Stored::addresses), held);
        self.note_freed(freed);
        let mut concerned = BTreeSet::new();
        let named = stored
            .as_ref()
            .map(|Stored { labels, created, .. }| TemplateFields { labels: labels.clone(), created: *created });
        concerned.extend(self.hostnames.set_service(key, named));
        let population = self.meshes.entry(key.mesh.clone()).or_default();
        let groups = population.set_service(key, stored.as_ref());
        let group = |name| ServiceKey { kind: BackendKind::MeshMultiZoneService, mesh: key.mesh.clone(), name };
        concerned.extend(groups.into_iter().map(group));
        match stored {
            Some(stored) => self.services.insert(key.clone(), stored),
            None => self.services.remove(key),
        };
        self.note(concerned);
        self.forget(&key.mesh);
    }

    pub fn set_generator(&mut self, name: &Arc<str>, generator: Option<Generator>) {
        let concerned = self.hostnames.set_generator(name, generator);
        self.note(concerned);
    }

    /// Sets the stored allocation positions.
    pub fn set_positions(&mut self, positions: Positions) {
        self.addresses.resume(positions);
    }

    /// Marks services whose write failed, for a retry.
    pub fn again(&mut self, keys: impl IntoIterator<Item = ServiceKey>) {
        self.note(keys);
    }

    /// Called when another control plane wrote the positions: allocated addresses that are not stored are released.
    pub fn lost_positions(&mut self) {
        let given = self.addresses.take_back();
        self.note(given);
    }

    /// Advances the clock.
    pub fn tick(&mut self, now: Timestamp) {
        while let Some(first) = self.timers.first_entry().filter(|first| *first.key() <= now) {
            for timer in first.remove() {
                match timer {
                    Timer::Service(key) => self.note([key]),
                    Timer::Proxy(mesh, name) => self.expire(&mesh, &name, now),
                    Timer::Tags(mesh) => self.note_tags(&mesh),
                    Timer::Workload(WorkloadKey { mesh, name }) => self.note_workloads(&mesh, [name]),
                }
            }
        }
    }

    /// Ignores timers of proxies that reconnected.
    fn expire(&mut self, mesh: &Arc<str>, name: &str, now: Timestamp) {
        let Some(population) = self.meshes.get(mesh) else { return };
        let grace = self.settings.connection_grace;
        if !population.seen(name).is_connected(grace, now) {
            self.concern_all_of(mesh, name);
        }
    }

    /// Time of the next timer.
    pub fn next_tick(&self) -> Option<Timestamp> {
        self.timers.first_key_value().map(|(first, _)| *first)
    }

    /// Whether the dirty sets have services, meshes or Workloads.
    pub fn is_unsettled(&self) -> bool {
        !self.unsettled.is_empty() || !self.unsettled_tags.is_empty() || !self.unsettled_workloads.is_empty()
    }

    /// Increases with every change that affects a service or a Workload.
    pub fn notices(&self) -> u64 {
        self.notices
    }

    /// Pending writes. They count as done unless a change contradicts them or [`again`](Self::again) is called.
    pub fn due(&mut self, now: Timestamp) -> Due {
        self.tick(now);
        let mut due = Due::default();
        for key in std::mem::take(&mut self.unsettled) {
            self.work.services_looked_at += 1;
            self.look_at(&key, now, &mut due);
        }
        for mesh in std::mem::take(&mut self.unsettled_tags) {
            self.assign_tags(&mesh, now, &mut due);
        }
        for key in std::mem::take(&mut self.unsettled_workloads) {
            self.work.workloads_looked_at += 1;
            self.look_at_workload(&key, now, &mut due);
        }
        for wanted in &due.writes {
            match wanted.write {
                Write::Put { .. } | Write::Delete { .. } => self.work.spec_writes += 1,
                Write::Status { .. } => self.work.status_writes += 1,
            }
        }
        due.positions = self.addresses.unsaved_positions();
        due
    }

    pub fn work(&self) -> Work {
        self.work
    }

    fn concern(&mut self, mesh: &Arc<str>, names: impl IntoIterator<Item = Arc<str>>) {
        let key = |name| ServiceKey { kind: BackendKind::MeshService, mesh: mesh.clone(), name };
        self.note(names.into_iter().map(key));
    }

    /// Services and Workload of a Dataplane.
    fn concern_all_of(&mut self, mesh: &Arc<str>, dataplane: &str) {
        let Some(population) = self.meshes.get(mesh) else { return };
        let services: Vec<_> = population.membership.services_of(dataplane).cloned().collect();
        let workload = population.workloads.of_dataplane(dataplane).cloned();
        self.concern(mesh, services);
        self.note_workloads(mesh, workload);
    }

    fn note(&mut self, keys: impl IntoIterator<Item = ServiceKey>) {
        for key in keys {
            self.notices += 1;
            self.unsettled.insert(key);
        }
    }

    fn note_freed(&mut self, freed: FreedAddresses) {
        let FreedAddresses { destinations, meshes } = freed;
        self.note(destinations);
        for mesh in &meshes {
            self.note_tags(mesh);
        }
    }

    fn of_mesh(&self, kind: BackendKind, mesh: &Arc<str>) -> impl Iterator<Item = &ServiceKey> {
        let first = ServiceKey { kind, mesh: mesh.clone(), name: "".into() };
        let all = self.services.range(first..).map(|(key, _)| key);
        all.take_while(move |key| key.kind == kind && key.mesh == *mesh)
    }

    /// Drops the state of a mesh without resources.
    fn forget(&mut self, mesh: &Arc<str>) {
        let empty = self.meshes.get(mesh).is_some_and(Population::is_empty);
        if empty && KINDS.iter().all(|(_, kind)| self.of_mesh(*kind, mesh).next().is_none()) {
            self.meshes.remove(mesh);
        }
    }
}
