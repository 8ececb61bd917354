//! Instances behind the destinations that the calls of the client get to.

use std::{net::IpAddr, sync::Arc};

use kodiak_identity::acceptance;
use kodiak_model::{
    Word as _,
    kinds::{
        dataplane::{Inbound, InboundState},
        dataplane_insight::DataplaneInsight,
    },
    labels, tags,
};
use kodiak_rules::Proxy;
use kodiak_services::membership::Membership;
use kodiak_world::{
    Destination,
    destination::{Behind, Service},
};
use kodiak_xds::names;

use super::{Called, Question, Step, StepName, WhyEndpoint};
use crate::calls::Backend;

/// Instances that are listed in a step.
pub(super) const SHOWN: usize = 5;

/// Instance, with its proxy if it is in the mesh.
pub(super) struct Instance {
    pub(super) endpoint: WhyEndpoint,
    pub(super) proxy: Option<Arc<Proxy>>,
    /// Of its inbound.
    pub(super) position: usize,
    pub(super) insight: Option<Arc<DataplaneInsight>>,
}

/// A destination that calls get to, with its instances.
pub(super) struct Way {
    pub(super) backend: Backend,
    pub(super) instances: Vec<Instance>,
}

pub(super) fn ways(question: &Question<'_>) -> Vec<Way> {
    let way = |backend: &Backend| {
        let instances = match backend {
            Backend::Service(tags) => question.of_tags(tags),
            Backend::Port(destination, port) => question.behind(destination, port.port),
        };
        Way { backend: backend.clone(), instances }
    };
    question.backends.iter().map(way).collect()
}

impl Question<'_> {
    fn of_tags(&self, tags: &std::collections::BTreeMap<String, String>) -> Vec<Instance> {
        let mut found = Vec::new();
        for proxy in self.world.proxies(self.mesh) {
            let inbounds = proxy.dataplane.inbounds().iter().enumerate();
            let serving =
                inbounds.filter(|(_, inbound)| tags.iter().all(|(key, value)| inbound.tags.get(key) == Some(value)));
            found.extend(serving.map(|(position, inbound)| self.instance(proxy, (position, inbound), None)));
        }
        found
    }

    fn behind(&self, destination: &Destination, port: u32) -> Vec<Instance> {
        match &destination.behind {
            Behind::Service(service) => self.of_service(destination, service, port),
            Behind::External(spec) => {
                let endpoints = spec.endpoints.as_deref().unwrap_or_default().iter();
                let outside = endpoints.map(|endpoint| WhyEndpoint {
                    dataplane: String::new(),
                    address: names::host_port(&endpoint.address, endpoint.port),
                    zone: String::new(),
                    ready: true,
                    state: "outside of the mesh".to_owned(),
                    connected: None,
                });
                outside.map(|endpoint| Instance { endpoint, proxy: None, position: 0, insight: None }).collect()
            }
            Behind::MultiZone(_) => {
                let services = self.services_of(destination);
                services.flat_map(|service| self.behind(service, port)).collect()
            }
        }
    }

    /// MeshServices that a MeshMultiZoneService selects.
    pub(super) fn services_of(&self, destination: &Destination) -> impl Iterator<Item = &Arc<Destination>> {
        let wanted = match &destination.behind {
            Behind::MultiZone(spec) => spec.selector.mesh_service.match_labels.clone(),
            Behind::Service(_) | Behind::External(_) => None,
        };
        self.world.destinations(self.mesh).filter(move |one| {
            let selects =
                |wanted: &labels::Labels| wanted.iter().all(|(key, value)| one.labels.get(key) == Some(value));
            matches!(one.behind, Behind::Service(_)) && wanted.as_ref().is_some_and(selects)
        })
    }

    fn of_service(&self, destination: &Destination, service: &Service, port: u32) -> Vec<Instance> {
        let ports: Vec<_> = service.ports.iter().filter(|own| own.port == port).collect();
        let mut found = Vec::new();
        for proxy in &self.members(destination, service) {
            let accepted = acceptance(&self.rollout, &service.selector, proxy);
            let refused = (!accepted.is_endpoint).then_some("its token does not bind what the MeshService selects by");
            let inbounds = proxy.dataplane.inbounds().iter().enumerate();
            for inbound in inbounds.filter(|(_, inbound)| ports.iter().any(|port| port.is_served_by(inbound))) {
                found.push(self.instance(proxy, inbound, refused));
            }
        }
        found
    }

    /// Dataplanes of this zone that a MeshService selects.
    pub(super) fn members(&self, destination: &Destination, service: &Service) -> Vec<Arc<Proxy>> {
        let mut membership = Membership::default();
        membership.set_service(&destination.name, destination.is_local().then_some(&service.selector));
        for proxy in self.world.proxies(self.mesh) {
            membership.set_proxy(&proxy.name, Some(proxy));
        }
        membership.members(&destination.name).cloned().collect()
    }

    fn instance(&self, proxy: &Arc<Proxy>, (position, inbound): (usize, &Inbound), refused: Option<&str>) -> Instance {
        let networking = proxy.dataplane.networking.as_ref();
        let own = networking.map_or("", |networking| networking.address.as_str());
        let advertised = networking.map_or("", |networking| networking.advertised_address.as_str());
        let address = if advertised.is_empty() { inbound.address_or(own) } else { advertised };
        let insight = self.world.insight(&proxy.key());
        let fault = if let Some(refused) = refused {
            Some(refused.to_owned())
        } else if !inbound.is_served() {
            Some(InboundState::Ignored.text().to_owned())
        } else if !inbound.is_ready() {
            Some(InboundState::NotReady.text().to_owned())
        } else if address.parse::<IpAddr>().is_err() {
            Some("its address is not an IP address".to_owned())
        } else {
            None
        };
        let online = insight.as_ref().map(|insight| insight.is_online());
        let endpoint = WhyEndpoint {
            dataplane: proxy.name.to_string(),
            address: names::host_port(address, inbound.port),
            zone: inbound.tags.get(tags::ZONE).or_else(|| proxy.labels.get(labels::ZONE)).cloned().unwrap_or_default(),
            ready: fault.is_none(),
            state: fault.unwrap_or_else(|| InboundState::Ready.text().to_owned()),
            connected: online.or((!self.context.offline).then_some(false)),
        };
        Instance { endpoint, proxy: Some(proxy.clone()), position, insight }
    }
}

pub(super) fn endpoints(question: &Question<'_>, ways: &[Way]) -> Step {
    let (step, called) = (StepName::Endpoints, question.called.short());
    let instances = || ways.iter().flat_map(|way| &way.instances);
    let ready = instances().filter(|instance| instance.endpoint.ready).count();
    let line = |instance: &Instance| {
        let WhyEndpoint { dataplane, address, zone, ready: _, state, connected } = &instance.endpoint;
        let zone = if zone.is_empty() { String::new() } else { format!(", zone {zone}") };
        let online = match connected {
            Some(true) => ", connected",
            Some(false) => ", not connected",
            None => "",
        };
        let name = if dataplane.is_empty() { String::new() } else { format!("{dataplane} at ") };
        format!("{name}{address}: {state}{zone}{online}")
    };
    // Those that are no endpoints first: they are what people look for.
    let (good, bad): (Vec<_>, Vec<_>) = instances().partition(|instance| instance.endpoint.ready);
    let mut details: Vec<String> = bad.into_iter().chain(good).take(SHOWN).map(line).collect();
    let all = instances().count();
    if all > SHOWN {
        details.push(format!("and {} more", all - SHOWN));
    }
    let elsewhere = ways.iter().any(Way::is_served_elsewhere);
    match (ready, all) {
        (0, _) if elsewhere => Step::unknown(step, format!("{called} is served in another zone")).with(details),
        (0, 0) => Step::problem(step, format!("no Dataplane serves {called}")),
        (0, all) => {
            Step::problem(step, format!("none of the {all} instances of {called} is a ready endpoint")).with(details)
        }
        (ready, all) => Step::ok(step, format!("{ready} of {all} instances are ready endpoints")).with(details),
    }
}

impl Way {
    fn is_served_elsewhere(&self) -> bool {
        matches!(&self.backend, Backend::Port(destination, _) if !destination.is_local())
    }

    /// The TLS to its endpoints, if it is outside of the mesh.
    pub(super) fn external(&self) -> Option<&'static str> {
        let Backend::Port(destination, _) = &self.backend else { return None };
        let Behind::External(spec) = &destination.behind else { return None };
        Some(if spec.tls.is_some() { "TLS of the MeshExternalService" } else { "no TLS to the external endpoints" })
    }
}

impl Called {
    pub(super) fn backend(&self) -> Backend {
        match self {
            Self::Service(service) => Backend::Service(super::resolve::service_tags(service)),
            Self::Port(destination, port) => Backend::Port(destination.clone(), port.clone()),
        }
    }
}
