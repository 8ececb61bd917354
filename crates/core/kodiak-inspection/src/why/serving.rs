//! Instances behind the destination, and the TLS between them and the client.

use std::{collections::BTreeSet, net::IpAddr, sync::Arc};

use kodiak_identity::acceptance;
use kodiak_model::{
    Word as _,
    kinds::{
        dataplane::{Inbound, InboundState},
        dataplane_insight::DataplaneInsight,
        mesh_service::IdentityType,
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

/// Instances that are listed in a step.
const SHOWN: usize = 5;

/// Instance, with its proxy if it is in the mesh.
pub(super) struct Instance {
    pub(super) endpoint: WhyEndpoint,
    pub(super) proxy: Option<Arc<Proxy>>,
    pub(super) insight: Option<Arc<DataplaneInsight>>,
}

pub(super) fn instances(question: &Question<'_>) -> Vec<Instance> {
    match &question.called {
        Called::Service(service) => {
            let proxies = question.world.proxies(question.mesh);
            let inbounds = proxies.flat_map(|proxy| proxy.dataplane.inbounds().iter().map(move |each| (proxy, each)));
            let serving = inbounds.filter(|(_, inbound)| inbound.service() == Some(&**service));
            serving.map(|(proxy, inbound)| question.instance(proxy, inbound, None)).collect()
        }
        Called::Port(destination, port) => question.behind(destination, port.port),
    }
}

impl Question<'_> {
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
                outside.map(|endpoint| Instance { endpoint, proxy: None, insight: None }).collect()
            }
            Behind::MultiZone(_) => {
                let services = self.services_of(destination);
                services.flat_map(|service| self.behind(service, port)).collect()
            }
        }
    }

    /// MeshServices that a MeshMultiZoneService selects.
    fn services_of(&self, destination: &Destination) -> impl Iterator<Item = &Arc<Destination>> {
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
        if !destination.is_local() {
            return Vec::new();
        }
        let mut membership = Membership::default();
        membership.set_service(&destination.name, Some(&service.selector));
        for proxy in self.world.proxies(self.mesh) {
            membership.set_proxy(&proxy.name, Some(proxy));
        }
        let ports: Vec<_> = service.ports.iter().filter(|own| own.port == port).collect();
        let members: Vec<Arc<Proxy>> = membership.members(&destination.name).cloned().collect();
        let mut found = Vec::new();
        for proxy in &members {
            let accepted = acceptance(&self.rollout, &service.selector, proxy);
            let refused = (!accepted.is_endpoint).then_some("its token does not bind what the MeshService selects by");
            let inbounds = proxy.dataplane.inbounds().iter();
            for inbound in inbounds.filter(|inbound| ports.iter().any(|port| port.is_served_by(inbound))) {
                found.push(self.instance(proxy, inbound, refused));
            }
        }
        found
    }

    fn instance(&self, proxy: &Arc<Proxy>, inbound: &Inbound, refused: Option<&str>) -> Instance {
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
        Instance { endpoint, proxy: Some(proxy.clone()), insight }
    }

    /// SANs that the client accepts from servers.
    fn expected(&self, instances: &[Instance]) -> BTreeSet<String> {
        match &self.called {
            Called::Service(service) => [names::service_identity(self.mesh, service)].into(),
            Called::Port(destination, _) => {
                let members = instances.iter().filter_map(|instance| instance.proxy.as_ref());
                let mut expected: BTreeSet<String> = members.flat_map(|proxy| self.presented(proxy)).collect();
                let services = std::iter::once(destination).chain(self.services_of(destination));
                expected.extend(services.flat_map(|service| self.written_identities(service)));
                expected
            }
        }
    }

    /// SPIFFE IDs of the certificate of a proxy.
    fn presented(&self, proxy: &Proxy) -> BTreeSet<String> {
        let uris = kodiak_reachability::certificate(self.mesh, proxy);
        let uris = uris.iter().flat_map(|uris| uris.iter());
        uris.filter(|uri| uri.starts_with(&names::identity_prefix(self.mesh))).cloned().collect()
    }

    fn written_identities(&self, destination: &Destination) -> Vec<String> {
        let Behind::Service(service) = &destination.behind else { return Vec::new() };
        let uri = |identity: &kodiak_model::kinds::mesh_service::Identity| {
            Some(match identity.identity_type.as_ref()?.known()? {
                IdentityType::ServiceTag => names::service_identity(self.mesh, &identity.value),
                IdentityType::SpiffeId => identity.value.clone(),
            })
        };
        service.identities.iter().filter_map(uri).collect()
    }
}

pub(super) fn endpoints(question: &Question<'_>, instances: &[Instance]) -> Step {
    let (step, called) = (StepName::Endpoints, question.called.short());
    let ready = instances.iter().filter(|instance| instance.endpoint.ready).count();
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
    let (good, bad): (Vec<_>, Vec<_>) = instances.iter().partition(|instance| instance.endpoint.ready);
    let mut details: Vec<String> = bad.into_iter().chain(good).take(SHOWN).map(line).collect();
    if instances.len() > SHOWN {
        details.push(format!("and {} more", instances.len() - SHOWN));
    }
    let elsewhere = matches!(&question.called, Called::Port(destination, _) if !destination.is_local());
    match (ready, instances.len()) {
        (0, 0) if elsewhere => Step::unknown(step, format!("{called} is served in another zone")),
        (0, 0) => Step::problem(step, format!("no Dataplane serves {called}")),
        (0, all) => {
            Step::problem(step, format!("none of the {all} instances of {called} is a ready endpoint")).with(details)
        }
        (ready, all) => Step::ok(step, format!("{ready} of {all} instances are ready endpoints")).with(details),
    }
}

pub(super) fn tls(question: &Question<'_>, instances: &[Instance]) -> Step {
    let step = StepName::Tls;
    if let Called::Port(destination, _) = &question.called
        && let Behind::External(spec) = &destination.behind
    {
        let own =
            if spec.tls.is_some() { "TLS of the MeshExternalService" } else { "no TLS to the external endpoints" };
        return Step::ok(step, own);
    }
    if !question.rollout.call {
        return Step::ok(step, "plain text, because mutual TLS is off in the mesh");
    }
    let expected = question.expected(instances);
    let mut details: Vec<String> = expected.iter().map(|san| format!("expected SAN {san}")).collect();
    let client = question.world.insight(&question.client.key());
    let trusted = client.as_ref().and_then(|insight| insight.mtls.as_ref()).map(|mtls| &mtls.supported_backends);
    let trusted = trusted.filter(|trusted| !trusted.is_empty());
    if let Some(trusted) = trusted {
        details.push(format!("the client trusts {}", trusted.join(", ")));
    }
    let mut problems = Vec::new();
    let mut seen = BTreeSet::new();
    for (instance, proxy) in instances.iter().filter_map(|instance| Some((instance, instance.proxy.as_ref()?))) {
        let presented = question.presented(proxy);
        seen.extend(presented.iter().cloned());
        if presented.is_disjoint(&expected) {
            let text = presented.into_iter().collect::<Vec<_>>().join(", ");
            problems.push(format!("{} presents {text}, which the client does not expect", proxy.name));
        }
        let signer = instance.insight.as_ref().and_then(|insight| insight.mtls.as_ref());
        let signer = signer.map(|mtls| &mtls.issued_backend).filter(|backend| !backend.is_empty());
        if let (Some(signer), Some(trusted)) = (signer, trusted)
            && !trusted.contains(signer)
        {
            problems.push(format!("the certificate of {} is of {signer}, which the client does not trust", proxy.name));
        }
    }
    details.extend(seen.iter().map(|san| format!("presented SAN {san}")));
    match problems.first() {
        Some(first) => Step::problem(step, first.clone()).with(problems[1..].iter().take(SHOWN).cloned()).with(details),
        None if seen.is_empty() => {
            Step::unknown(step, "mutual TLS; no server to compare certificates with").with(details)
        }
        None => Step::ok(step, "mutual TLS; the servers present SANs that the client expects").with(details),
    }
}
