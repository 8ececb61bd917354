//! Ports that Dataplanes offer to each service with their inbounds. Updated by changes.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use jiff::Timestamp;
use kodiak_identity::{Claim, may_claim};
use kodiak_model::{
    IntOrString,
    dns::dns_1035_label,
    kinds::{dataplane::Inbound, mesh_service::Port},
    labels, tags,
};
use kodiak_rules::Proxy;

use super::{Rules, Source, propagation::Carried};

/// Ports that one Dataplane offers to one service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Offer {
    pub(super) ports: Vec<Port>,
    pub(super) carried: Carried,
    /// Whether the Dataplane may claim the service.
    pub(super) is_vouched_for: bool,
}

/// Order of Dataplanes: by age, then by name.
pub type Age = (Timestamp, Arc<str>);

#[derive(Default)]
pub struct Offers {
    by_service: BTreeMap<Arc<str>, BTreeMap<Age, Offer>>,
    /// Age and services of each Dataplane with offers.
    given: BTreeMap<Arc<str>, (Timestamp, Vec<Arc<str>>)>,
}

impl Offers {
    /// Returns the services whose offers changed.
    pub fn set_proxy(
        &mut self,
        rules: &Rules,
        name: &Arc<str>,
        proxy: Option<(&Proxy, Timestamp)>,
    ) -> BTreeSet<Arc<str>> {
        let mut before: BTreeMap<Arc<str>, (Timestamp, Offer)> = BTreeMap::new();
        if let Some((created, services)) = self.given.remove(name) {
            let age = (created, name.clone());
            for service in services {
                let offers = self.by_service.get_mut(&service).expect("who offers is found under the service");
                let offer = offers.remove(&age).expect("an offer is kept under the age of who made it");
                if offers.is_empty() {
                    self.by_service.remove(&service);
                }
                before.insert(service, (created, offer));
            }
        }
        let mut changed = BTreeSet::new();
        if let Some((proxy, created)) = proxy {
            let made = offers_of(rules, proxy);
            if !made.is_empty() {
                self.given.insert(name.clone(), (created, made.keys().cloned().collect()));
            }
            for (service, offer) in made {
                let offer = (created, offer);
                if before.remove(&service).as_ref() != Some(&offer) {
                    changed.insert(service.clone());
                }
                self.by_service.entry(service).or_default().insert((created, name.clone()), offer.1);
            }
        }
        changed.extend(before.into_keys());
        changed
    }

    /// Offers, oldest Dataplane first.
    pub fn of(&self, service: &str) -> impl Iterator<Item = (&Age, &Offer)> + Clone {
        self.by_service.get(service).into_iter().flatten()
    }

    /// Those that decide about the MeshService: offers of Dataplanes that only claim the service do not, beside others.
    pub(super) fn deciding(&self, service: &str) -> impl Iterator<Item = (&Age, &Offer)> + Clone {
        let is_vouched_for = |(_, offer): &(&Age, &Offer)| offer.is_vouched_for;
        let any = self.of(service).any(|offer| is_vouched_for(&offer));
        self.of(service).filter(move |offer| !any || is_vouched_for(offer))
    }

    pub fn services(&self) -> impl Iterator<Item = &Arc<str>> {
        self.by_service.keys()
    }
}

/// Skips services whose name is not valid for a MeshService.
fn offers_of(rules: &Rules, proxy: &Proxy) -> BTreeMap<Arc<str>, Offer> {
    let mut groups: BTreeMap<&str, Vec<&Inbound>> = BTreeMap::new();
    for inbound in proxy.dataplane.inbounds() {
        let service = match rules.source {
            Source::ServiceTag => inbound.service(),
            Source::Workload => proxy.labels.get(labels::WORKLOAD).map(String::as_str),
        };
        if let Some(service) = service.filter(|service| dns_1035_label(service).is_empty()) {
            groups.entry(service).or_default().push(inbound);
        }
    }
    let claim = |service: &str| match rules.source {
        Source::ServiceTag => Claim::Tag(tags::SERVICE.to_owned(), service.to_owned()),
        Source::Workload => Claim::Label(labels::WORKLOAD.to_owned(), service.to_owned()),
    };
    let offer = |service: &str, inbounds: Vec<&Inbound>| Offer {
        carried: rules.propagation.as_ref().map(|rule| rule.carried(proxy, &inbounds)).unwrap_or_default(),
        ports: ports_of(&inbounds),
        is_vouched_for: may_claim(proxy, &claim(service)),
    };
    groups.into_iter().map(|(service, inbounds)| (service.into(), offer(service, inbounds))).collect()
}

/// A port that is served at several addresses counts once.
fn ports_of(inbounds: &[&Inbound]) -> Vec<Port> {
    let mut ports: Vec<Port> = Vec::new();
    for inbound in inbounds {
        if ports.iter().all(|port| port.port != inbound.port) {
            ports.push(port_of(inbound));
        }
    }
    ports
}

fn port_of(inbound: &Inbound) -> Port {
    Port {
        name: Some(inbound.section_name()),
        port: inbound.port,
        target_port: Some(IntOrString::Int(i64::from(inbound.port))),
        app_protocol: inbound.protocol().as_str().to_owned(),
    }
}

/// Equality in any order.
pub(super) fn same_ports(one: &[Port], other: &[Port]) -> bool {
    one.len() == other.len() && one.iter().all(|port| other.contains(port))
}
