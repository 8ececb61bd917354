//! Workloads: one is generated for each value of the label `kuma.io/workload` of Dataplanes, and each has the counts of
//! its proxies in its status.
//!
//! **Invariant:** spec and labels of a Workload of a user are never changed, and it is never deleted.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use jiff::Timestamp;
use kodiak_model::{
    Labels,
    dns::dns_1035_label,
    kinds::{
        dataplane::Inbound,
        workload::{DataplaneProxies, WorkloadStatus},
    },
    labels,
};

use super::{DataplaneFacts, Due, ServiceReconciler, Timer, health::Moment, population::Population};
use crate::generated_services::{is_local, is_managed_by, own_labels};

/// Value of the label `kuma.io/managed-by` of generated Workloads.
pub const WORKLOAD_MANAGER: &str = "workload-generator";

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct WorkloadKey {
    pub mesh: Arc<str>,
    pub name: Arc<str>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredWorkload {
    pub labels: Arc<Labels>,
    /// Version of spec and labels.
    pub version: u64,
    /// `None` while there is no status.
    pub status_version: Option<u64>,
    pub status: WorkloadStatus,
}

/// Write of one Workload, with its precondition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WantedWorkload {
    pub key: WorkloadKey,
    pub write: WorkloadWrite,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WorkloadWrite {
    /// Without a version it must not exist yet.
    Put {
        labels: Labels,
        version: Option<u64>,
    },
    /// Without a version there must be no status yet.
    Status {
        status: WorkloadStatus,
        version: Option<u64>,
    },
    Delete {
        version: u64,
    },
}

/// Workloads of a mesh, and the Dataplanes with their names.
#[derive(Default)]
pub(super) struct Workloads {
    stored: BTreeMap<Arc<str>, StoredWorkload>,
    /// By Dataplane.
    members: BTreeMap<Arc<str>, Member>,
    /// Dataplanes by the value of their label.
    by_name: BTreeMap<Arc<str>, BTreeSet<Arc<str>>>,
}

/// Facts of a Dataplane with the label, on which its Workload depends.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Member {
    workload: Arc<str>,
    /// At least one inbound is ready.
    healthy: bool,
    /// Gateways are counted, but no Workload is generated for them.
    gateway: bool,
}

impl Member {
    fn of(DataplaneFacts { labels, dataplane, .. }: &DataplaneFacts) -> Option<Self> {
        let workload = labels.get(labels::WORKLOAD).filter(|name| !name.is_empty())?;
        let healthy = dataplane.inbounds().iter().any(Inbound::is_ready);
        Some(Self { workload: workload.as_str().into(), healthy, gateway: dataplane.gateway().is_some() })
    }
}

impl Workloads {
    /// Returns the affected Workloads: the former and the new one of a Dataplane.
    pub(super) fn set_dataplane(&mut self, name: &Arc<str>, facts: Option<&DataplaneFacts>) -> BTreeSet<Arc<str>> {
        let after = facts.and_then(Member::of);
        let before = match &after {
            Some(member) => self.members.insert(name.clone(), member.clone()),
            None => self.members.remove(name),
        };
        if before == after {
            return BTreeSet::new();
        }
        if let Some(Member { workload, .. }) = &before
            && let Some(of_it) = self.by_name.get_mut(workload)
        {
            of_it.remove(name);
            if of_it.is_empty() {
                self.by_name.remove(workload);
            }
        }
        if let Some(Member { workload, .. }) = &after {
            self.by_name.entry(workload.clone()).or_default().insert(name.clone());
        }
        before.into_iter().chain(after).map(|member| member.workload).collect()
    }

    /// Returns whether it changed.
    fn set_stored(&mut self, name: &Arc<str>, stored: Option<StoredWorkload>) -> bool {
        let before = self.stored.get(name) != stored.as_ref();
        match stored {
            Some(stored) => self.stored.insert(name.clone(), stored),
            None => self.stored.remove(name),
        };
        before
    }

    pub(super) fn of_dataplane(&self, name: &str) -> Option<&Arc<str>> {
        self.members.get(name).map(|member| &member.workload)
    }

    /// Stored ones and those that Dataplanes name.
    pub(super) fn names(&self) -> impl Iterator<Item = &Arc<str>> {
        self.stored.keys().chain(self.by_name.keys())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.stored.is_empty() && self.members.is_empty()
    }

    fn members_of(&self, workload: &str) -> impl Iterator<Item = (&Arc<str>, &Member)> {
        self.by_name.get(workload).into_iter().flatten().map(|name| (name, &self.members[name]))
    }

    /// Whether one is generated under this name.
    fn is_wanted(&self, workload: &str) -> bool {
        dns_1035_label(workload).is_empty() && self.members_of(workload).any(|(_, member)| !member.gateway)
    }
}

impl Population {
    fn workload_proxies(&self, workload: &str, moment: Moment) -> DataplaneProxies {
        let mut proxies = DataplaneProxies::default();
        for (name, member) in self.workloads.members_of(workload) {
            proxies.total += 1;
            proxies.healthy += u32::from(member.healthy);
            proxies.connected += u32::from(self.seen(name).is_connected(moment.grace, moment.now));
        }
        proxies
    }
}

impl ServiceReconciler {
    pub fn set_workload(&mut self, key: &WorkloadKey, stored: Option<StoredWorkload>) {
        let population = self.meshes.entry(key.mesh.clone()).or_default();
        if population.workloads.set_stored(&key.name, stored) {
            self.note_workloads(&key.mesh, [key.name.clone()]);
        }
        self.forget(&key.mesh);
    }

    /// Marks Workloads whose write failed, for a retry.
    pub fn workloads_again(&mut self, keys: impl IntoIterator<Item = WorkloadKey>) {
        for WorkloadKey { mesh, name } in keys {
            self.note_workloads(&mesh, [name]);
        }
    }

    pub(super) fn note_workloads(&mut self, mesh: &Arc<str>, names: impl IntoIterator<Item = Arc<str>>) {
        for name in names {
            self.notices += 1;
            self.unsettled_workloads.insert(WorkloadKey { mesh: mesh.clone(), name });
        }
    }

    pub(super) fn look_at_workload(&mut self, key: &WorkloadKey, now: Timestamp, due: &mut Due) {
        // Workloads of a deleted mesh are deleted with it.
        let Some(population) = self.meshes.get(&key.mesh).filter(|population| population.facts.is_some()) else {
            return;
        };
        let wanted = population.workloads.is_wanted(&key.name);
        let Some(stored) = population.workloads.stored.get(&key.name) else {
            if wanted {
                let labels = self.workload_labels(key, Labels::new());
                want(key, WorkloadWrite::Put { labels, version: None }, due);
            }
            return;
        };
        if is_managed_by(&stored.labels, WORKLOAD_MANAGER) {
            if !wanted {
                want(key, WorkloadWrite::Delete { version: stored.version }, due);
                return;
            }
            let labels = self.workload_labels(key, (*stored.labels).clone());
            if labels != *stored.labels {
                want(key, WorkloadWrite::Put { labels, version: Some(stored.version) }, due);
            }
        }
        if !is_local(&stored.labels) {
            return;
        }
        let moment = self.moment(now);
        let mut proxies = population.workload_proxies(&key.name, moment);
        let last = stored.status.dataplane_proxies.connected.min(proxies.total);
        if moment.settling && last > proxies.connected {
            proxies.connected = last;
            self.timers.entry(self.settled).or_default().insert(Timer::Workload(key.clone()));
        }
        let status = WorkloadStatus { dataplane_proxies: proxies };
        if status != stored.status || stored.status_version.is_none() {
            want(key, WorkloadWrite::Status { status, version: stored.status_version }, due);
        }
    }

    fn workload_labels(&self, WorkloadKey { mesh, name }: &WorkloadKey, mut labels: Labels) -> Labels {
        labels.extend(own_labels(WORKLOAD_MANAGER, mesh, &self.settings.rules.zone, name));
        labels
    }
}

fn want(key: &WorkloadKey, write: WorkloadWrite, due: &mut Due) {
    due.workloads.push(WantedWorkload { key: key.clone(), write });
}
