//! The current state of a mesh, as far as it decides who may call whom.

use std::{collections::BTreeSet, sync::Arc};

use kodiak_model::kinds::dataplane::{Inbound, Networking};
use kodiak_reachability::{
    Admission, Purpose,
    admission::{Serving, Source},
};
use kodiak_rollout::Rollout;
use kodiak_rules::{PolicyIndex, Proxy, Shadow};
use kodiak_world::destination::Behind;

use crate::{in_effect::InboundKey, objects::Objects, services::Services, target::Target};

/// State of a mesh that permissions are evaluated on.
#[derive(Clone, Copy)]
pub(crate) struct Evidence<'a> {
    pub(crate) services: &'a Services,
    pub(crate) objects: &'a Objects,
    pub(crate) policy_index: &'a PolicyIndex,
    pub(crate) shadow: Shadow,
    pub(crate) rollout: &'a Rollout,
}

/// Inbounds at which calls of a destination arrive.
#[derive(Default)]
pub(crate) struct Arrivals<'a> {
    /// Dataplanes, and positions of their inbounds.
    pub(crate) inbounds: Vec<(&'a str, usize)>,
    /// Callers that are admitted whatever servers have acknowledged.
    pub(crate) others: Vec<Admission>,
}

impl<'a> Evidence<'a> {
    /// All destinations of the mesh.
    pub(crate) fn targets(self) -> BTreeSet<Target> {
        let services = self.services.names().cloned().map(Target::Service);
        services.chain(self.objects.names().cloned().map(Target::Object)).collect()
    }

    fn source(self) -> Source<'a> {
        Source { index: self.policy_index, shadow: self.shadow, rollout: self.rollout, purpose: Purpose::Trimming }
    }

    /// Admission of each inbound of a Dataplane by the current policies.
    pub(crate) fn inbounds(self, proxy: &Proxy) -> impl Iterator<Item = (InboundKey, Admission)> {
        let networking = proxy.dataplane.networking.as_ref();
        let served = proxy.dataplane.inbounds().iter().enumerate().filter(|(_, inbound)| inbound.is_served());
        served
            .map(move |(position, inbound)| (key_of(networking, inbound), self.source().inbound(&proxy.name, position)))
    }

    pub(crate) fn key(self, server: &str, position: usize) -> Option<InboundKey> {
        let dataplane = &self.policy_index.proxy(server)?.dataplane;
        Some(key_of(dataplane.networking.as_ref(), dataplane.inbounds().get(position)?))
    }

    /// `None` for a destination that does not exist.
    pub(crate) fn arrivals(self, target: &Target) -> Option<Arrivals<'a>> {
        let mut arrivals = Arrivals::default();
        match target {
            Target::Service(name) => arrivals.inbounds.extend(self.services.get(name)?.inbounds()),
            Target::Object(kri) => {
                let destination = &*self.objects.get(kri)?.destination;
                match &destination.behind {
                    Behind::Service(service) => {
                        let members = self.objects.members(destination);
                        match self.source().serving(destination, service, members) {
                            Serving::Inbounds(inbounds) => arrivals.inbounds = inbounds,
                            Serving::Unseen(admission) => arrivals.others.push(admission),
                        }
                    }
                    Behind::External(_) => arrivals.others.push(Admission::Open),
                    Behind::MultiZone(_) => {
                        for kri in self.objects.selected_services(destination) {
                            let Some(Arrivals { inbounds, others }) = self.arrivals(&Target::Object(kri.clone()))
                            else {
                                continue;
                            };
                            arrivals.inbounds.extend(inbounds);
                            arrivals.others.extend(others);
                        }
                    }
                }
            }
        }
        Some(arrivals)
    }

    /// Destinations that a Dataplane serves.
    pub(crate) fn served_by(self, proxy: &Proxy) -> BTreeSet<Target> {
        let services = proxy.dataplane.inbounds().iter().filter_map(|inbound| inbound.service()).map(Arc::from);
        let objects = self.objects.served_by(&proxy.name).into_iter().map(Target::Object);
        services.map(Target::Service).chain(objects).collect()
    }
}

fn key_of(networking: Option<&Networking>, inbound: &Inbound) -> InboundKey {
    let address = inbound.address_or(networking.map_or("", |networking| &networking.address));
    (address.into(), inbound.port)
}
