//! MeshServices that are generated from Dataplanes: one for each service that they name.
//!
//! **Invariant:** a MeshService of a user is never changed, and none is generated with its name.
//! **Invariant:** an update keeps the state and the identities of a service.
//! **Invariant:** a MeshService depends on the offers to it alone; those of Dataplanes that only claim its name, and whose
//! tokens do not bind it, change neither its ports nor its labels.

mod offers;
mod propagation;
#[cfg(test)]
mod tests;

use std::{collections::BTreeMap, sync::Arc};

use jiff::{SignedDuration, Timestamp};
use kodiak_model::{
    LabelSelector, Labels,
    kinds::{
        mesh::MeshServicesMode,
        mesh_service::{MeshService, Selector},
    },
    labels, tags,
};

use offers::same_ports;

pub use offers::{Age, Offer, Offers};
pub use propagation::{Propagation, is_reserved};

/// Value of the label `kuma.io/managed-by` of generated MeshServices.
pub const MANAGER: &str = "meshservice-generator";

/// ServiceSettings of the generation.
#[derive(Debug, Clone)]
pub struct Rules {
    pub zone: String,
    pub source: Source,
    /// Grace period of a MeshService without Dataplanes.
    pub grace: SignedDuration,
    /// Grace period after the mode of the mesh became `Disabled`, in which clients can move back.
    pub disable_grace: SignedDuration,
    /// `None` copies no labels from Dataplanes.
    pub propagation: Option<Propagation>,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            zone: "default".to_owned(),
            source: Source::default(),
            grace: SignedDuration::from_hours(1),
            disable_grace: SignedDuration::from_mins(2),
            propagation: None,
        }
    }
}

/// Source of the service name of a Dataplane.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Source {
    /// Tag `kuma.io/service` of each inbound.
    #[default]
    ServiceTag,
    /// Label `kuma.io/workload` of the Dataplane.
    Workload,
}

/// Mesh, zone and time of a reconciliation.
#[derive(Debug, Clone, Copy)]
pub struct Situation<'a> {
    pub rules: &'a Rules,
    pub mesh: &'a str,
    pub mode: MeshServicesMode,
    pub now: Timestamp,
}

/// Stored MeshService.
#[derive(Debug, Clone, Copy)]
pub struct Existing<'a> {
    pub labels: &'a Labels,
    pub spec: &'a MeshService,
}

/// Decision for one MeshService.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Decision {
    pub verdict: Verdict,
    /// Dataplanes whose ports differ from those of the MeshService. Clients do not reach their other ports.
    pub conflict: Vec<Arc<str>>,
    /// End of its grace period.
    pub look_again: Option<Timestamp>,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub enum Verdict {
    /// Not managed by this control plane, or neither stored nor offered.
    #[default]
    Leave,
    /// Write this version.
    Stand {
        labels: Labels,
        spec: MeshService,
    },
    Delete,
}

/// Compares the offers under one name with the stored MeshService.
pub fn decide(situation: &Situation<'_>, name: &str, existing: Option<Existing<'_>>, offers: &Offers) -> Decision {
    let wanted = situation.mode != MeshServicesMode::Disabled;
    let served = wanted && offers.of(name).next().is_some();
    match existing {
        Some(existing) if !is_managed(existing.labels) => Decision::default(),
        Some(existing) if served => stand(situation, name, Some(existing), offers),
        Some(existing) if wanted => let_go(situation, existing, situation.rules.grace),
        Some(existing) => let_go(situation, existing, situation.rules.disable_grace),
        None if served => stand(situation, name, None, offers),
        None => Decision::default(),
    }
}

/// With offers: it has their ports, and no grace period.
fn stand(situation: &Situation<'_>, name: &str, existing: Option<Existing<'_>>, offers: &Offers) -> Decision {
    let offered = || offers.deciding(name).map(|(_, offer)| &offer.ports);
    let stored = existing.map(|existing| &existing.spec.ports);
    let agreed = stored.filter(|stored| offered().any(|ports| same_ports(ports, stored)));
    let ports = agreed.or_else(|| offered().next()).cloned().unwrap_or_default();
    let others = offers.of(name).filter(|(_, offer)| !same_ports(&offer.ports, &ports));
    let conflict = others.map(|((_, proxy), _)| proxy.clone()).collect();

    let before = existing.map(|existing| existing.spec.clone()).unwrap_or_default();
    let spec = MeshService { selector: selector(situation.rules.source, name), ports, ..before };
    let mut labels = existing.map(|existing| existing.labels.clone()).unwrap_or_default();
    labels.remove(labels::GRACE_STARTED);
    if situation.rules.propagation.is_some() {
        propagation::renew(&mut labels, offers.deciding(name));
    }
    labels.extend(own_labels(MANAGER, situation.mesh, &situation.rules.zone, name));
    Decision { verdict: Verdict::Stand { labels, spec }, conflict, look_again: None }
}

/// Without offers, or with the mode `Disabled`: its grace period runs.
fn let_go(situation: &Situation<'_>, existing: Existing<'_>, grace: SignedDuration) -> Decision {
    let now = situation.now;
    let stored: Option<Timestamp> = existing.labels.get(labels::GRACE_STARTED).and_then(|text| text.parse().ok());
    let since = stored.unwrap_or(now);
    if now.duration_since(since) >= grace {
        return Decision { verdict: Verdict::Delete, ..Decision::default() };
    }
    let mut labels = existing.labels.clone();
    if stored.is_none() {
        labels.insert(labels::GRACE_STARTED.to_owned(), now.to_string());
    }
    let verdict = Verdict::Stand { labels, spec: existing.spec.clone() };
    Decision { verdict, look_again: since.checked_add(grace).ok(), ..Decision::default() }
}

/// Resources of another zone are managed there.
pub fn is_local(stored: &Labels) -> bool {
    stored.get(labels::ORIGIN).is_none_or(|origin| origin == "zone")
}

/// Generated by this control plane, not written by a user.
pub fn is_managed(stored: &Labels) -> bool {
    is_managed_by(stored, MANAGER)
}

pub(crate) fn is_managed_by(stored: &Labels, manager: &str) -> bool {
    is_local(stored) && stored.get(labels::MANAGED_BY).is_some_and(|stored| stored == manager)
}

fn selector(source: Source, service: &str) -> Selector {
    let one = |key: &str| BTreeMap::from([(key.to_owned(), service.to_owned())]);
    match source {
        Source::ServiceTag => Selector { dataplane_tags: Some(one(tags::SERVICE)), ..Selector::default() },
        Source::Workload => {
            let labels = LabelSelector { match_labels: Some(one(labels::WORKLOAD)) };
            Selector { dataplane_labels: Some(labels), ..Selector::default() }
        }
    }
}

/// Labels of a generated resource.
pub(crate) fn own_labels(manager: &str, mesh: &str, zone: &str, name: &str) -> [(String, String); 6] {
    [
        (labels::MESH, mesh),
        (labels::DISPLAY_NAME, name),
        (labels::MANAGED_BY, manager),
        (labels::ENV, "universal"),
        (labels::ZONE, zone),
        (labels::ORIGIN, "zone"),
    ]
    .map(|(key, value)| (key.to_owned(), value.to_owned()))
}
