//! The MeshServices that follow from Dataplanes: one for each service that they name.
//!
//! **Invariant:** a MeshService that somebody wrote by hand is never changed, and none is made beside it.
//! **Invariant:** a change keeps what the control plane knows of a service: its state and its identities.

mod offers;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use kodiak_model::{
    Labels,
    kinds::{
        dataplane::Inbound,
        mesh::MeshServicesMode,
        mesh_service::{MeshService, Selector},
    },
    labels, tags,
};

use offers::{Offer, offers, same_ports};

/// Who keeps a MeshService, in the label `kuma.io/managed-by`.
pub const MANAGER: &str = "meshservice-generator";

/// Where and when MeshServices are generated.
#[derive(Debug, Clone, Copy)]
pub struct Situation<'a> {
    pub mesh: &'a str,
    pub zone: &'a str,
    pub mode: MeshServicesMode,
    pub now: Timestamp,
    /// For so long a MeshService stays after its last Dataplane is gone.
    pub grace: SignedDuration,
}

/// A Dataplane of the mesh.
#[derive(Debug, Clone, Copy)]
pub struct Proxy<'a> {
    pub name: &'a str,
    pub created: Timestamp,
    pub inbounds: &'a [Inbound],
}

/// A MeshService as it is stored.
#[derive(Debug, Clone)]
pub struct Existing<'a> {
    pub name: &'a str,
    pub labels: &'a Labels,
    pub spec: MeshService,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    Create { name: String, labels: Labels, spec: MeshService },
    Update { name: String, labels: Labels, spec: MeshService },
    Delete { name: String },
}

/// Dataplanes whose ports are not those of their MeshService. Who calls it does not reach them at their own ports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conflict {
    pub service: String,
    pub dataplanes: Vec<String>,
}

/// What is to be done so that all is as it should be.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Plan {
    pub actions: Vec<Action>,
    pub conflicts: Vec<Conflict>,
    /// When to look again though nothing has changed: then the first grace period is over.
    pub look_again: Option<Timestamp>,
}

/// What the Dataplanes of a mesh ask for, held against what is there.
pub fn plan(situation: &Situation<'_>, proxies: &[Proxy<'_>], existing: &[Existing<'_>]) -> Plan {
    let mut plan = Plan::default();
    let managed = existing.iter().filter(|existing| is_managed(existing.labels));
    if situation.mode == MeshServicesMode::Disabled {
        plan.actions.extend(managed.map(|existing| Action::Delete { name: existing.name.to_owned() }));
        return plan;
    }
    let offers = offers(proxies);
    for existing in managed {
        match offers.get(existing.name) {
            Some(offers) => plan.keep(situation, existing, offers),
            None => plan.let_go(situation, existing),
        }
    }
    let taken: BTreeSet<&str> = existing.iter().map(|existing| existing.name).collect();
    for (service, offers) in offers.iter().filter(|(service, _)| !taken.contains(*service)) {
        plan.create(situation, service, offers);
    }
    // Whether a MeshService is new makes no difference to what is told of it.
    plan.conflicts.sort_by(|one, other| one.service.cmp(&other.service));
    plan
}

impl Plan {
    /// Somebody serves it: it has their ports, and no end.
    fn keep(&mut self, situation: &Situation<'_>, existing: &Existing<'_>, offers: &[Offer<'_>]) {
        let Existing { name, labels: stored, ref spec } = *existing;
        let agreed = offers.iter().any(|offer| same_ports(&offer.ports, &spec.ports));
        let ports = if agreed { &spec.ports } else { &offers[0].ports };
        let spec = MeshService { selector: selector(name), ports: ports.clone(), ..spec.clone() };
        let mut labels = stored.clone();
        labels.remove(labels::GRACE_STARTED);
        labels.extend(own_labels(situation, name));
        self.note_conflict(name, offers, &spec);
        if labels != *stored || spec != existing.spec {
            self.actions.push(Action::Update { name: name.to_owned(), labels, spec });
        }
    }

    /// Nobody serves it: it may stay for a while.
    fn let_go(&mut self, situation: &Situation<'_>, existing: &Existing<'_>) {
        let Situation { now, grace, .. } = *situation;
        let name = existing.name.to_owned();
        let stored: Option<Timestamp> = existing.labels.get(labels::GRACE_STARTED).and_then(|text| text.parse().ok());
        let since = stored.unwrap_or(now);
        if now.duration_since(since) >= grace {
            self.actions.push(Action::Delete { name });
            return;
        }
        if stored.is_none() {
            let mut labels = existing.labels.clone();
            labels.insert(labels::GRACE_STARTED.to_owned(), now.to_string());
            self.actions.push(Action::Update { name, labels, spec: existing.spec.clone() });
        }
        let end = since.checked_add(grace).ok();
        self.look_again = self.look_again.into_iter().chain(end).min();
    }

    fn create(&mut self, situation: &Situation<'_>, service: &str, offers: &[Offer<'_>]) {
        let ports = offers[0].ports.clone();
        let spec = MeshService { selector: selector(service), ports, ..MeshService::default() };
        self.note_conflict(service, offers, &spec);
        let labels = own_labels(situation, service).into_iter().collect();
        self.actions.push(Action::Create { name: service.to_owned(), labels, spec });
    }

    fn note_conflict(&mut self, service: &str, offers: &[Offer<'_>], spec: &MeshService) {
        let others = offers.iter().filter(|offer| !same_ports(&offer.ports, &spec.ports));
        let dataplanes: Vec<String> = others.map(|offer| offer.proxy.to_owned()).collect();
        if !dataplanes.is_empty() {
            self.conflicts.push(Conflict { service: service.to_owned(), dataplanes });
        }
    }
}

/// Made here, and by nobody's hand. What came from another zone is that zone's.
fn is_managed(stored: &Labels) -> bool {
    let local = stored.get(labels::ORIGIN).is_none_or(|origin| origin == "zone");
    local && stored.get(labels::MANAGED_BY).is_some_and(|manager| manager == MANAGER)
}

fn selector(service: &str) -> Selector {
    let tags = BTreeMap::from([(tags::SERVICE.to_owned(), service.to_owned())]);
    Selector { dataplane_tags: Some(tags), ..Selector::default() }
}

fn own_labels(situation: &Situation<'_>, service: &str) -> [(String, String); 6] {
    [
        (labels::MESH, situation.mesh),
        (labels::DISPLAY_NAME, service),
        (labels::MANAGED_BY, MANAGER),
        (labels::ENV, "universal"),
        (labels::ZONE, situation.zone),
        (labels::ORIGIN, "zone"),
    ]
    .map(|(key, value)| (key.to_owned(), value.to_owned()))
}
