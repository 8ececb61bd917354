//! The MeshServices that follow from Dataplanes: one for each service that they name.
//!
//! **Invariant:** a MeshService that somebody wrote by hand is never changed, and none is made beside it.
//! **Invariant:** a change keeps what the control plane knows of a service: its state and its identities.
//! **Invariant:** what becomes of one MeshService depends on what is offered to it, and on nothing else.

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

/// Who keeps a MeshService, in the label `kuma.io/managed-by`.
pub const MANAGER: &str = "meshservice-generator";

/// How MeshServices are made.
#[derive(Debug, Clone)]
pub struct Rules {
    pub zone: String,
    pub source: Source,
    /// For so long a MeshService stays after its last Dataplane is gone.
    pub grace: SignedDuration,
    /// For so long it stays after its mesh wants none any more, so that who calls it can go back before it is gone.
    pub disable_grace: SignedDuration,
    /// `None`: labels are not taken over from Dataplanes.
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

/// What names the service of a Dataplane.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Source {
    /// The tag `kuma.io/service` of each inbound.
    #[default]
    ServiceTag,
    /// The label `kuma.io/workload` of the Dataplane.
    Workload,
}

/// Where and when a MeshService is looked at.
#[derive(Debug, Clone, Copy)]
pub struct Situation<'a> {
    pub rules: &'a Rules,
    pub mesh: &'a str,
    pub mode: MeshServicesMode,
    pub now: Timestamp,
}

/// A MeshService as it is stored.
#[derive(Debug, Clone, Copy)]
pub struct Existing<'a> {
    pub labels: &'a Labels,
    pub spec: &'a MeshService,
}

/// What is to become of one MeshService.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Decision {
    pub verdict: Verdict,
    /// Dataplanes whose ports are not those of the MeshService. Who calls it does not reach them at their own ports.
    pub conflict: Vec<Arc<str>>,
    /// When to look again though nothing has changed: then its grace period is over.
    pub look_again: Option<Timestamp>,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub enum Verdict {
    /// It is not ours, or there is none and nobody asks for it.
    #[default]
    Leave,
    /// It is to be like this.
    Stand {
        labels: Labels,
        spec: MeshService,
    },
    Delete,
}

/// What the Dataplanes of a mesh ask for under one name, held against what is there.
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

/// Somebody serves it: it has their ports, and no end.
fn stand(situation: &Situation<'_>, name: &str, existing: Option<Existing<'_>>, offers: &Offers) -> Decision {
    let offered = || offers.of(name).map(|(_, offer)| &offer.ports);
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
        propagation::renew(&mut labels, offers.of(name));
    }
    labels.extend(own_labels(situation, name));
    Decision { verdict: Verdict::Stand { labels, spec }, conflict, look_again: None }
}

/// Nobody serves it, or nobody is to: it may stay for a while.
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

/// What came from another zone is that zone's.
pub fn is_local(stored: &Labels) -> bool {
    stored.get(labels::ORIGIN).is_none_or(|origin| origin == "zone")
}

/// Made here, and by nobody's hand.
pub fn is_managed(stored: &Labels) -> bool {
    is_local(stored) && stored.get(labels::MANAGED_BY).is_some_and(|manager| manager == MANAGER)
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

fn own_labels(situation: &Situation<'_>, service: &str) -> [(String, String); 6] {
    [
        (labels::MESH, situation.mesh),
        (labels::DISPLAY_NAME, service),
        (labels::MANAGED_BY, MANAGER),
        (labels::ENV, "universal"),
        (labels::ZONE, &situation.rules.zone),
        (labels::ORIGIN, "zone"),
    ]
    .map(|(key, value)| (key.to_owned(), value.to_owned()))
}
