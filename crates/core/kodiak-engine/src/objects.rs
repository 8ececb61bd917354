//! MeshServices, MeshExternalServices and MeshMultiZoneServices, with the endpoints of each of their ports.
//!
//! **Invariant:** a change of a Dataplane costs the MeshServices that select it, and the MeshMultiZoneServices that
//! select those.

mod lookup;

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    sync::Arc,
};

use kodiak_identity::{ServerAccess, acceptance};
use kodiak_model::{
    Kri, PortSection,
    kinds::{
        dataplane::BackendKind,
        mesh_service::{Identity, IdentityType},
    },
};
use kodiak_policies::target::EndpointLabels;
use kodiak_reachability::admission::{inbounds_behind, stand_in};
use kodiak_rollout::Rollout;
use kodiak_rules::{
    Policy, Proxy, Resource,
    partial::{PartialProxies, PartialProxy},
};
use kodiak_services::membership::Membership;
use kodiak_world::destination::{self, Behind, Destination, Service};
use kodiak_xds::{input::Endpoint, names};

use crate::{collections::Multimap, services::endpoint};

/// Kind and stored name of a resource.
pub(crate) type ObjectKey = (BackendKind, Arc<str>);

#[derive(Default)]
pub(crate) struct Objects {
    stored: BTreeMap<ObjectKey, Arc<Destination>>,
    /// Of several resources with the same KRI, callers reach one: see [`Objects::refresh`].
    by_kri: Multimap<Arc<Kri>, ObjectKey>,
    known: BTreeMap<Arc<Kri>, Object>,
    by_label: Multimap<(BackendKind, String, String), Arc<Kri>>,
    /// Members of the MeshServices of this zone, by stored name.
    membership: Membership,
    /// MeshServices of this zone that no inbound serves, with what is known about their Dataplanes.
    unseen: PartialProxies<Arc<Kri>>,
    /// MeshMultiZoneServices by one of the labels that they select.
    multi_zone_by_label: Multimap<(String, String), Arc<Kri>>,
    /// Step of the mesh: SPIFFE IDs of servers, and whether they have certificates.
    rollout: Arc<Rollout>,
}

/// A resource as callers see it.
pub(crate) struct Object {
    pub(crate) destination: Arc<Destination>,
    /// As policies target it.
    pub(crate) resource: Arc<Resource>,
    /// SPIFFE IDs that callers accept from its endpoints, sorted.
    pub(crate) identities: Vec<String>,
    /// By section.
    endpoints: BTreeMap<String, Arc<[Endpoint]>>,
    labels: Arc<EndpointLabels>,
}

impl Object {
    pub(crate) fn endpoints(&self, section: &str) -> Arc<[Endpoint]> {
        self.endpoints.get(section).cloned().unwrap_or_default()
    }

    /// Labels of the Dataplanes of its endpoints.
    pub(crate) fn labels(&self) -> &Arc<EndpointLabels> {
        &self.labels
    }
}

impl Objects {
    pub(crate) fn get(&self, kri: &Kri) -> Option<&Object> {
        self.known.get(kri)
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &Arc<Kri>> {
        self.known.keys()
    }

    pub(crate) fn is_empty(&self) -> bool {
        let Self {
            stored,
            by_kri: _,
            known: _,
            by_label: _,
            membership: _,
            unseen: _,
            multi_zone_by_label: _,
            rollout: _,
        } = self;
        stored.is_empty()
    }

    /// KRIs of MeshExternalServices.
    pub(crate) fn external(&self) -> impl Iterator<Item = &Arc<Kri>> {
        let is_external = |object: &Object| object.destination.kind() == BackendKind::MeshExternalService;
        self.known.iter().filter(move |(_, object)| is_external(object)).map(|(kri, _)| kri)
    }

    /// Replaces a resource. Returns the KRIs of resources that changed for callers.
    pub(crate) fn set(&mut self, key: &ObjectKey, new: Option<&Arc<Destination>>) -> BTreeSet<Arc<Kri>> {
        let old = match new {
            Some(new) => self.stored.insert(key.clone(), new.clone()),
            None => self.stored.remove(key),
        };
        if old.as_ref() == new {
            return BTreeSet::new();
        }
        let mut concerned = BTreeSet::new();
        if let Some(old) = &old {
            let kri = Arc::new(old.kri.clone());
            self.by_kri.remove(&kri, key);
            concerned.insert(kri);
        }
        if let Some(new) = new {
            let kri = Arc::new(new.kri.clone());
            self.by_kri.insert(kri.clone(), key.clone());
            concerned.insert(kri);
        }
        if key.0 == BackendKind::MeshService {
            let served_here = new.filter(|new| new.is_local());
            let selector = served_here.and_then(|new| service_of(new)).map(|service| &service.selector);
            self.membership.set_service(&key.1, selector);
        }
        let mut touched = BTreeSet::new();
        for kri in concerned {
            let before = self.known.get(&kri).map(|object| object.destination.clone());
            if self.refresh(&kri) {
                let after = self.known.get(&kri).map(|object| object.destination.clone());
                let around = before.iter().chain(&after).flat_map(|each| self.multi_zone_services_of(each));
                let around: BTreeSet<Arc<Kri>> = around.collect();
                touched.insert(kri);
                touched.extend(around.into_iter().filter(|kri| self.refresh(kri)));
            }
        }
        touched
    }

    /// Replaces a Dataplane. Returns the KRIs of resources that changed for callers.
    pub(crate) fn set_proxy(&mut self, name: &Arc<str>, proxy: Option<&Arc<Proxy>>) -> BTreeSet<Arc<Kri>> {
        let services = self.membership.set_proxy(name, proxy);
        let mut touched = BTreeSet::new();
        for service in services {
            let Some(stored) = self.stored.get(&(BackendKind::MeshService, service)).cloned() else { continue };
            let kri = Arc::new(stored.kri.clone());
            if self.refresh(&kri) {
                touched.insert(kri);
                let around: BTreeSet<Arc<Kri>> = self.multi_zone_services_of(&stored).collect();
                touched.extend(around.into_iter().filter(|kri| self.refresh(kri)));
            }
        }
        touched
    }

    /// Replaces the step of the mesh. Every cluster is rebuilt after it.
    pub(crate) fn set_rollout(&mut self, rollout: &Rollout) {
        if *self.rollout == *rollout {
            return;
        }
        self.rollout = Arc::new(rollout.clone());
        let is_multi_zone = |kri: &&Arc<Kri>| self.known[*kri].destination.kind() == BackendKind::MeshMultiZoneService;
        // MeshMultiZoneServices last: they have the identities of their MeshServices.
        let (multi_zone, others): (Vec<_>, Vec<_>) = self.known.keys().partition(is_multi_zone);
        let all: Vec<Arc<Kri>> = others.into_iter().chain(multi_zone).cloned().collect();
        for kri in all {
            self.refresh(&kri);
        }
    }

    /// Dataplanes of this zone that a MeshService selects.
    pub(crate) fn members<'a>(&'a self, service: &'a Destination) -> impl Iterator<Item = &'a Arc<Proxy>> {
        self.membership.members(&service.name).filter(|_| service.is_local())
    }

    /// KRIs of the MeshServices that a MeshMultiZoneService selects, available or not.
    pub(crate) fn selected_services<'a>(&'a self, multi_zone: &'a Destination) -> impl Iterator<Item = &'a Arc<Kri>> {
        let wanted = match &multi_zone.behind {
            Behind::MultiZone(spec) => spec.selector.mesh_service.match_labels.as_ref(),
            Behind::Service(_) | Behind::External(_) => None,
        };
        wanted.into_iter().flat_map(|wanted| self.labelled(BackendKind::MeshService, wanted))
    }

    /// KRIs of the MeshServices that select a Dataplane, and of the MeshMultiZoneServices that may select those.
    pub(crate) fn served_by(&self, dataplane: &str) -> BTreeSet<Arc<Kri>> {
        let keys = self.membership.services_of(dataplane).map(|name| (BackendKind::MeshService, name.clone()));
        let services = keys.filter_map(|key| self.stored.get(&key));
        services.flat_map(|service| self.with_multi_zone_services(service)).collect()
    }

    /// KRIs of the MeshServices of this zone that no inbound serves and whose Dataplanes the policy may select, and of the
    /// MeshMultiZoneServices that may select those.
    pub(crate) fn unseen_by<'a>(&'a self, policy: &'a Policy) -> impl Iterator<Item = Arc<Kri>> + 'a {
        let services = self.unseen.selected_by(policy).filter_map(|kri| self.known.get(kri));
        services.flat_map(|service| self.with_multi_zone_services(&service.destination))
    }

    fn with_multi_zone_services<'a>(&'a self, service: &'a Destination) -> impl Iterator<Item = Arc<Kri>> + 'a {
        [Arc::new(service.kri.clone())].into_iter().chain(self.multi_zone_services_of(service))
    }

    /// MeshMultiZoneServices that may select a MeshService by its labels.
    fn multi_zone_services_of<'a>(&'a self, service: &'a Destination) -> impl Iterator<Item = Arc<Kri>> + 'a {
        let is_service = service.kind() == BackendKind::MeshService;
        let labels = service.labels.iter().filter(move |_| is_service);
        labels.filter_map(|(key, value)| self.multi_zone_by_label.get(&(key.clone(), value.clone()))).flatten().cloned()
    }

    /// Computes a resource again. Returns whether it changed for callers.
    fn refresh(&mut self, kri: &Arc<Kri>) -> bool {
        // The resource that hostnames were given to: generators prefer the oldest, too.
        let claims = self.by_kri.get(kri).into_iter().flatten().filter_map(|key| self.stored.get(key));
        let stored = claims.min_by_key(|each| (each.hostnames.is_empty(), each.created, each.name.clone())).cloned();
        let old = self.known.remove(kri);
        let new = stored.map(|destination| self.resolve(destination));
        let same = match (&old, &new) {
            (Some(old), Some(new)) => {
                // Equal destinations may be in different allocations, so this compares values.
                (old.destination == new.destination || same_to_callers(&old.destination, &new.destination))
                    && old.identities == new.identities
                    && old.endpoints == new.endpoints
                    && old.labels == new.labels
            }
            (None, None) => true,
            _ => false,
        };
        if let Some(old) = &old {
            self.unindex(kri, &old.destination);
        }
        self.unseen.set(kri, new.as_ref().and_then(|new| self.unseen_proxy(&new.destination)));
        if let Some(new) = new {
            self.index(kri, &new.destination);
            self.known.insert(kri.clone(), new);
        }
        !same
    }

    /// Known properties of the Dataplanes of a MeshService of this zone, unless one of them has an inbound for it.
    fn unseen_proxy(&self, destination: &Destination) -> Option<PartialProxy> {
        let service = service_of(destination).filter(|_| destination.is_local())?;
        let is_seen = self.members(destination).any(|proxy| inbounds_behind(service, proxy).next().is_some());
        (!is_seen).then(|| PartialProxy::of(&stand_in(destination, &service.selector)))
    }

    fn resolve(&self, destination: Arc<Destination>) -> Object {
        let sections = destination.ports.iter();
        let sections = sections.map(|port| PortSection { port: port.port, section: port.section.clone() });
        let (kind, _) =
            destination::KINDS.iter().find(|(_, kind)| *kind == destination.kind()).expect("all kinds are there");
        let resource = Resource {
            kind,
            mesh: destination.kri.mesh.as_str().into(),
            name: destination.name.clone(),
            labels: destination.labels.clone(),
            ports: sections.collect(),
        };
        let Serving { identities, endpoints, labels } = match &destination.behind {
            Behind::Service(service) => self.service_endpoints(&destination, service),
            Behind::MultiZone(_) => self.multi_zone_endpoints(&destination),
            Behind::External(_) => Serving::default(),
        };
        let identities = identities.into_iter().collect();
        Object { destination, resource: Arc::new(resource), identities, endpoints, labels: Arc::new(labels) }
    }

    /// Identities and endpoints of a MeshService.
    fn service_endpoints(&self, destination: &Destination, service: &Service) -> Serving {
        let mesh = &destination.kri.mesh;
        let written = service.identities.iter().filter_map(|identity| uri(mesh, identity));
        let mut identities: BTreeSet<String> = written.collect();
        let mut endpoints: BTreeMap<String, Vec<Endpoint>> = BTreeMap::new();
        let mut labels = EndpointLabels::new();
        for proxy in self.membership.members(&destination.name) {
            // The identities in the spec are reconciled a moment later; callers accept new members meanwhile.
            let accepted = acceptance(&self.rollout, &service.selector, proxy);
            if !accepted.is_endpoint {
                continue;
            }
            identities.extend(accepted.service_tags.iter().map(|name| names::service_identity(mesh, name)));
            identities.extend(accepted.spiffe_ids);
            let plaintext = match ServerAccess::of(&self.rollout, proxy) {
                ServerAccess::Regular => false,
                ServerAccess::Plaintext => true,
                ServerAccess::Closed => continue,
            };
            let Some(networking) = &proxy.dataplane.networking else { continue };
            for inbound in networking.inbound.iter().filter(|inbound| inbound.is_served() && inbound.is_ready()) {
                let endpoint = Endpoint { plaintext, ..endpoint(networking, inbound) };
                // Envoy rejects the whole ClusterLoadAssignment if one address is a hostname.
                if endpoint.address.parse::<IpAddr>().is_err() {
                    continue;
                }
                let ports = service.ports.iter().zip(&destination.ports);
                for (_, port) in ports.filter(|(port, _)| port.is_served_by(inbound)) {
                    labels.insert((endpoint.address.clone(), endpoint.port), proxy.labels.clone());
                    endpoints.entry(port.section.clone()).or_default().push(endpoint.clone());
                }
            }
        }
        Serving::new(identities, endpoints, labels)
    }

    /// Identities and endpoints of all selected MeshServices, by port number.
    fn multi_zone_endpoints(&self, destination: &Destination) -> Serving {
        let mut identities = BTreeSet::new();
        let mut endpoints: BTreeMap<String, Vec<Endpoint>> = BTreeMap::new();
        let mut labels = EndpointLabels::new();
        for object in self.available_services(destination) {
            identities.extend(object.identities.iter().cloned());
            labels.extend(object.labels.iter().map(|(address, labels)| (address.clone(), labels.clone())));
            for port in &destination.ports {
                let same = object.destination.ports.iter().find(|own| own.port == port.port);
                let list = same.map(|own| object.endpoints(&own.section));
                endpoints
                    .entry(port.section.clone())
                    .or_default()
                    .extend(list.iter().flat_map(|list| list.iter().cloned()));
            }
        }
        Serving::new(identities, endpoints, labels)
    }

    /// MeshServices that a MeshMultiZoneService selects, without those of other zones that are unavailable.
    fn available_services<'a>(&'a self, destination: &'a Destination) -> impl Iterator<Item = &'a Object> {
        let found = self.selected_services(destination);
        found.filter_map(|kri| self.known.get(kri)).filter(|object| {
            let available = service_of(&object.destination).is_some_and(|service| service.available);
            object.destination.is_local() || available
        })
    }

    fn index(&mut self, kri: &Arc<Kri>, destination: &Destination) {
        for (key, value) in &*destination.labels {
            let label = (destination.kind(), key.clone(), value.clone());
            self.by_label.insert(label, kri.clone());
        }
        if let Some(index_label) = index_label(destination) {
            self.multi_zone_by_label.insert(index_label, kri.clone());
        }
    }

    fn unindex(&mut self, kri: &Arc<Kri>, destination: &Destination) {
        for (key, value) in &*destination.labels {
            self.by_label.remove(&(destination.kind(), key.clone(), value.clone()), kri);
        }
        if let Some(index_label) = index_label(destination) {
            self.multi_zone_by_label.remove(&index_label, kri);
        }
    }
}

#[derive(Default)]
struct Serving {
    /// Accepted identities.
    identities: BTreeSet<String>,
    /// By section.
    endpoints: BTreeMap<String, Arc<[Endpoint]>>,
    labels: EndpointLabels,
}

impl Serving {
    fn new(identities: BTreeSet<String>, endpoints: BTreeMap<String, Vec<Endpoint>>, labels: EndpointLabels) -> Self {
        let endpoints = endpoints.into_iter().map(|(section, list)| (section, sorted_unique(list))).collect();
        Self { identities, endpoints, labels }
    }
}

/// Whether two versions differ only in fields that the control plane writes and callers do not see: the state of a local
/// MeshService, and identities that its proxies have anyway.
fn same_to_callers(old: &Destination, new: &Destination) -> bool {
    let (Behind::Service(was), Behind::Service(is)) = (&old.behind, &new.behind) else { return false };
    let known = Service { identities: was.identities.clone(), available: was.available, ..(**is).clone() };
    let elsewhere = !new.is_local() && was.available != is.available;
    !elsewhere && *old == Destination { behind: Behind::Service(Arc::new(known)), ..new.clone() }
}

fn service_of(destination: &Destination) -> Option<&Service> {
    match &destination.behind {
        Behind::Service(service) => Some(service),
        Behind::External(_) | Behind::MultiZone(_) => None,
    }
}

/// A label that every MeshService has which a MeshMultiZoneService selects.
fn index_label(destination: &Destination) -> Option<(String, String)> {
    let Behind::MultiZone(spec) = &destination.behind else { return None };
    let labels = spec.selector.mesh_service.match_labels.as_ref()?;
    labels.first_key_value().map(|(key, value)| (key.clone(), value.clone()))
}

fn uri(mesh: &str, identity: &Identity) -> Option<String> {
    match identity.identity_type.as_ref()?.known()? {
        IdentityType::ServiceTag => Some(names::service_identity(mesh, &identity.value)),
        IdentityType::SpiffeId => Some(identity.value.clone()),
    }
}

/// Envoy rejects duplicate endpoints, and two Dataplanes may have the same address: the one that is called with mTLS counts.
fn sorted_unique(mut endpoints: Vec<Endpoint>) -> Arc<[Endpoint]> {
    endpoints.sort();
    endpoints.dedup_by(|a, b| a.address == b.address && a.port == b.port);
    endpoints.into()
}
