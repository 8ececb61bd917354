//! Destinations that the proxies of a mesh may call.
//!
//! A changed permission reaches the servers first: a destination keeps its old callers until the proxies behind it have
//! acknowledged their new configuration. So nobody calls a server that does not allow it yet, and nobody loses a destination
//! that still answers.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use jiff::{SignedDuration, Timestamp};
use kodiak_reachability::{Admission, Certificate, MeshGraph, Purpose, admission::Source};
use kodiak_rollout::Rollout;
use kodiak_rules::{PolicyIndex, Shadow};
use kodiak_world::destination::Behind;

use crate::{
    objects::Objects,
    services::{Service, Services},
    target::Target,
};

/// After this time, clients get destinations that they may call now, also if a server has not acknowledged: one that
/// rejects its configuration must not keep them from all others. They never lose a destination because of this.
const LONGEST_WAIT: SignedDuration = SignedDuration::from_secs(10);

pub(crate) struct Permitted {
    graph: MeshGraph,
    /// Destinations with changed permissions.
    waiting: BTreeMap<Target, Waiting>,
}

struct Waiting {
    /// Proxies behind the destination, with the revision to acknowledge.
    servers: BTreeMap<Arc<str>, u64>,
    since: Timestamp,
    /// Whether new callers have it already.
    granted: bool,
}

/// State of a mesh that permissions are evaluated on.
#[derive(Clone, Copy)]
pub(crate) struct Evidence<'a> {
    pub(crate) services: &'a Services,
    pub(crate) objects: &'a Objects,
    pub(crate) policy_index: &'a PolicyIndex,
    pub(crate) shadow: Shadow,
    pub(crate) rollout: &'a Rollout,
}

/// Consequences of a change.
#[derive(Default)]
pub(crate) struct Moved {
    /// Clients that may call other sets of destinations now.
    pub(crate) clients: BTreeSet<Arc<str>>,
    /// Destinations that are in another set now.
    pub(crate) targets: BTreeSet<Target>,
}

impl Permitted {
    pub(crate) fn new(mesh: Arc<str>) -> Self {
        Self { graph: MeshGraph::new(mesh), waiting: BTreeMap::new() }
    }

    pub(crate) fn graph(&self) -> &MeshGraph {
        &self.graph
    }

    /// `None` for a proxy that may call everything, or is gone.
    pub(crate) fn set_client(&mut self, name: &Arc<str>, certificates: Option<&[Certificate]>) {
        self.graph.set_client(name, certificates);
    }

    /// Computes destinations again. Those that wait for acknowledgements stay as they are, unless they are gone.
    pub(crate) fn update(&mut self, targets: BTreeSet<Target>, from: Evidence<'_>, moved: &mut Moved) {
        for target in targets {
            let admission = from.admission(&target);
            if admission.is_none() {
                self.waiting.remove(&target);
            }
            if !self.waiting.contains_key(&target) {
                self.set(&target, admission.as_ref(), moved);
            }
        }
    }

    /// Permissions of a destination changed: its servers are about to get them, with this revision.
    pub(crate) fn wait_for(&mut self, target: Target, servers: BTreeSet<Arc<str>>, revision: u64, now: Timestamp) {
        let waiting = self.waiting.entry(target).or_insert_with(|| Waiting {
            servers: BTreeMap::new(),
            since: now,
            granted: false,
        });
        waiting.granted = false;
        waiting.servers.extend(servers.into_iter().map(|server| (server, revision)));
    }

    /// Servers that a destination waits for, with the revision to acknowledge.
    pub(crate) fn awaited(&self) -> BTreeMap<&Arc<str>, u64> {
        let mut awaited = BTreeMap::new();
        for (server, revision) in self.waiting.values().flat_map(|waiting| &waiting.servers) {
            let at = awaited.entry(server).or_insert(*revision);
            *at = (*at).max(*revision);
        }
        awaited
    }

    /// Removes servers that need not be waited for any longer. Returns the destinations that wait for none.
    pub(crate) fn settle(&mut self, is_settled: impl Fn(&Arc<str>, u64) -> bool) -> BTreeSet<Target> {
        for waiting in self.waiting.values_mut() {
            waiting.servers.retain(|server, revision| !is_settled(server, *revision));
        }
        let ready = self.waiting.iter().filter(|(_, waiting)| waiting.servers.is_empty());
        let ready: BTreeSet<Target> = ready.map(|(target, _)| target.clone()).collect();
        self.waiting.retain(|target, _| !ready.contains(target));
        ready
    }

    /// Gives destinations to new callers after the longest wait.
    pub(crate) fn grant(&mut self, from: Evidence<'_>, now: Timestamp, moved: &mut Moved) {
        let late = |waiting: &Waiting| !waiting.granted && now.duration_since(waiting.since) >= LONGEST_WAIT;
        let late = self.waiting.iter().filter(|(_, waiting)| late(waiting));
        let late: Vec<Target> = late.map(|(target, _)| target.clone()).collect();
        for target in late {
            let before = self.graph.admission(&target).into_iter();
            let either = Admission::any(before.chain(from.admission(&target)));
            self.set(&target, Some(&either), moved);
            if let Some(waiting) = self.waiting.get_mut(&target) {
                waiting.granted = true;
            }
        }
    }

    fn set(&mut self, target: &Target, admission: Option<&Admission>, moved: &mut Moved) {
        let before = self.graph.set_of(target);
        let effect = self.graph.set_destination(target, admission);
        moved.clients.extend(self.graph.clients(&effect.regrouped).into_iter().cloned());
        if self.graph.set_of(target) != before {
            moved.targets.insert(target.clone());
        }
    }
}

impl Evidence<'_> {
    /// All destinations of the mesh.
    pub(crate) fn targets(self) -> BTreeSet<Target> {
        let services = self.services.names().cloned().map(Target::Service);
        services.chain(self.objects.names().cloned().map(Target::Object)).collect()
    }

    /// `None` for a destination that does not exist.
    fn admission(self, target: &Target) -> Option<Admission> {
        let source =
            Source { index: self.policy_index, shadow: self.shadow, rollout: self.rollout, purpose: Purpose::Trimming };
        match target {
            Target::Service(name) => Some(source.inbounds(self.services.get(name)?.inbounds())),
            Target::Object(kri) => {
                let object = self.objects.get(kri)?;
                Some(match &object.destination.behind {
                    Behind::Service(service) => {
                        source.service(&object.destination, service, self.objects.members(&object.destination))
                    }
                    Behind::External(_) => Admission::Open,
                    Behind::MultiZone(_) => {
                        let selected = self.objects.selected_services(&object.destination);
                        Admission::any(selected.filter_map(|kri| self.admission(&Target::Object(kri.clone()))))
                    }
                })
            }
        }
    }

    /// Dataplanes behind a destination.
    pub(crate) fn servers(self, target: &Target) -> BTreeSet<Arc<str>> {
        match target {
            Target::Service(name) => {
                let inbounds = self.services.get(name).into_iter().flat_map(Service::dataplanes);
                inbounds.cloned().collect()
            }
            Target::Object(kri) => {
                let Some(object) = self.objects.get(kri) else { return BTreeSet::new() };
                match &object.destination.behind {
                    Behind::Service(_) => {
                        self.objects.members(&object.destination).map(|proxy| proxy.name.clone()).collect()
                    }
                    Behind::External(_) => BTreeSet::new(),
                    Behind::MultiZone(_) => {
                        let selected = self.objects.selected_services(&object.destination);
                        selected.flat_map(|kri| self.servers(&Target::Object(kri.clone()))).collect()
                    }
                }
            }
        }
    }

    /// Destinations that a Dataplane serves.
    pub(crate) fn served_by(self, dataplane: &str, services: impl IntoIterator<Item = Arc<str>>) -> BTreeSet<Target> {
        let objects = self.objects.served_by(dataplane).into_iter().map(Target::Object);
        services.into_iter().map(Target::Service).chain(objects).collect()
    }
}
