//! The graph of a whole mesh, from its resources.

#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use kodiak_identity::TlsPolicies;
use kodiak_model::{
    Cancellation, Cancelled, Labels,
    kinds::{
        dataplane::{BackendKind, Inbound},
        mesh_multi_zone_service::MeshMultiZoneService,
    },
    tags,
};
use kodiak_policies::mesh_traffic_permission::KIND;
use kodiak_rollout::Rollout;
use kodiak_rules::{Proxy, Shadow};
use kodiak_services::membership::Membership;
use kodiak_world::{
    Destination, World,
    destination::{Behind, Service},
};
use kodiak_xds::names;

use crate::{Admission, Graph, Purpose, Target, admission::Source, certificates};

/// Clients are Dataplanes, by name.
pub type MeshGraph = Graph<Arc<str>, Target>;

/// Current step of the mTLS rollout; without a recorded one, the mesh is at its target.
pub fn rollout(world: &World, mesh: &str) -> Rollout {
    kodiak_identity::current(world, mesh).unwrap_or_default()
}

impl MeshGraph {
    /// All Dataplanes and destinations of a mesh, for one purpose.
    pub fn of(
        world: &World,
        mesh: &str,
        purpose: Purpose,
        shadow: Shadow,
        cancellation: &Cancellation,
    ) -> Result<Self, Cancelled> {
        let mut graph = Self::new(mesh.into());
        let rollout = rollout(world, mesh);
        for proxy in world.proxies(mesh) {
            cancellation.check()?;
            graph.set_client(&proxy.name, Some(&certificates(mesh, proxy, &rollout)));
        }
        for (target, admission) in admissions(world, mesh, purpose, shadow, cancellation)? {
            cancellation.check()?;
            graph.set_destination(&target, Some(&admission));
        }
        Ok(graph)
    }
}

/// The admission of each destination of a mesh.
fn admissions(
    world: &World,
    mesh: &str,
    purpose: Purpose,
    shadow: Shadow,
    cancellation: &Cancellation,
) -> Result<BTreeMap<Target, Admission>, Cancelled> {
    let targets = targets(world, mesh);
    let rollout = rollout(world, mesh);
    if !purpose.is_decided_by_permissions(&rollout) {
        return Ok(targets.into_iter().map(|target| (target, Admission::Open)).collect());
    }
    let index = world.policy_index(TlsPolicies::kinds().chain([&KIND]), mesh);
    let source = Source { index: &index, shadow, rollout: &rollout, purpose };
    let mut all = BTreeMap::new();
    let mut inbounds: BTreeMap<&str, Vec<(&str, usize)>> = BTreeMap::new();
    for proxy in world.proxies(mesh) {
        for (position, inbound) in
            proxy.dataplane.inbounds().iter().enumerate().filter(|(_, inbound)| inbound.is_served())
        {
            if let Some(service) = inbound.service() {
                inbounds.entry(service).or_default().push((&proxy.name, position));
            }
        }
    }
    for (service, inbounds) in inbounds {
        cancellation.check()?;
        let sni = names::sni(&[(tags::SERVICE.to_owned(), service.to_owned())].into(), mesh);
        let admission = source.inbounds(inbounds);
        all.insert(
            Target::Service(service.into()),
            match purpose {
                Purpose::Trimming => admission,
                Purpose::Calls => admission.at(&sni),
            },
        );
    }
    let membership = membership(world, mesh);
    let mut services: Vec<(&Destination, Admission)> = Vec::new();
    for destination in world.destinations(mesh) {
        cancellation.check()?;
        if let Behind::Service(service) = &destination.behind {
            let members = members(&membership, destination);
            services.push((
                &**destination,
                match purpose {
                    Purpose::Trimming => source.service(destination, service, members),
                    Purpose::Calls => by_port(&source, destination, (destination, service), members),
                },
            ));
        }
    }
    for (service, admission) in &services {
        // Two resources may have the same KRI.
        let at = all.entry(Target::Object(Arc::new(service.kri.clone()))).or_insert(Admission::By(Vec::new()));
        *at = Admission::any([at.clone(), admission.clone()]);
    }
    for destination in world.destinations(mesh) {
        cancellation.check()?;
        let admission = match &destination.behind {
            Behind::Service(_) => continue,
            Behind::External(_) => Admission::Open,
            Behind::MultiZone(spec) => {
                let wanted = spec.selector.mesh_service.match_labels.as_ref();
                let selected = services.iter().filter(|(service, _)| selects(wanted, service));
                Admission::any(selected.map(|(service, one)| match purpose {
                    Purpose::Trimming => one.clone(),
                    Purpose::Calls => {
                        let members = members(&membership, service);
                        by_port(&source, destination, (service, &with_ports(service, spec)), members)
                    }
                }))
            }
        };
        all.insert(Target::Object(Arc::new(destination.kri.clone())), admission);
    }
    Ok(all)
}

/// Who may call one of the ports of a MeshService, which may be a part of the destination that is called.
fn by_port<'a>(
    source: &Source<'_>,
    called: &Destination,
    (destination, service): (&Destination, &Service),
    members: impl Iterator<Item = &'a Arc<Proxy>>,
) -> Admission {
    let members: Vec<&Arc<Proxy>> = members.collect();
    if members.is_empty() && !service.ports.is_empty() {
        return source.service(destination, service, []);
    }
    Admission::any(service.ports.iter().map(|port| {
        let inbounds = members.iter().flat_map(|proxy| served(proxy, |inbound| port.is_served_by(inbound)));
        let sni = names::port_sni(&called.sni_name(), port.port, &called.kri.mesh, called.kind());
        source.inbounds(inbounds.map(|(proxy, position)| (&**proxy, position))).at(&sni)
    }))
}

/// Inbounds of a Dataplane with a listener.
fn served<'a>(
    proxy: &'a Arc<Proxy>,
    is_behind: impl Fn(&Inbound) -> bool + 'a,
) -> impl Iterator<Item = (&'a Arc<str>, usize)> {
    let inbounds = proxy.dataplane.inbounds().iter().enumerate();
    let served = inbounds.filter(move |(_, inbound)| inbound.is_served() && is_behind(inbound));
    served.map(|(position, _)| (&proxy.name, position))
}

/// Inbounds, as the names of their Dataplanes and their positions.
pub type Inbounds = BTreeSet<(Arc<str>, usize)>;

/// Inbounds that serve each destination. `None` if some are not known: without Dataplanes in this zone, or outside of the
/// mesh.
pub fn inbounds_behind(world: &World, mesh: &str) -> BTreeMap<Target, Option<Inbounds>> {
    let owned = |(proxy, position): (&Arc<str>, usize)| (proxy.clone(), position);
    let mut all: BTreeMap<Target, Option<Inbounds>> =
        targets(world, mesh).into_iter().map(|target| (target, None)).collect();
    for proxy in world.proxies(mesh) {
        for service in proxy.dataplane.inbounds().iter().filter_map(|inbound| inbound.service()) {
            let Some(known) = all.get_mut(&Target::Service(service.into())) else { continue };
            known
                .get_or_insert_default()
                .extend(served(proxy, |inbound| inbound.service() == Some(service)).map(owned));
        }
    }
    let membership = membership(world, mesh);
    let of_service = |destination: &Destination, service: &Service| {
        let members = members(&membership, destination);
        let is_behind = |inbound: &Inbound| service.ports.iter().any(|port| port.is_served_by(inbound));
        members.flat_map(|proxy| served(proxy, is_behind)).map(owned).collect::<Vec<_>>()
    };
    for destination in world.destinations(mesh) {
        let inbounds: Vec<_> = match &destination.behind {
            Behind::External(_) => Vec::new(),
            Behind::Service(service) => of_service(destination, service),
            Behind::MultiZone(spec) => {
                let wanted = spec.selector.mesh_service.match_labels.as_ref();
                let selected = world.destinations(mesh).filter(|one| selects(wanted, one));
                let selected = selected.map(|one| (one, with_ports(one, spec)));
                let selected = selected.filter(|(_, service)| !service.ports.is_empty());
                let all: Vec<_> = selected.map(|(one, service)| of_service(one, &service)).collect();
                if all.iter().any(Vec::is_empty) { Vec::new() } else { all.concat() }
            }
        };
        let known = all.entry(Target::Object(Arc::new(destination.kri.clone()))).or_default();
        if !inbounds.is_empty() {
            known.get_or_insert_default().extend(inbounds);
        }
    }
    all
}

/// A MeshService with the ports that a MeshMultiZoneService has too.
fn with_ports(service: &Destination, group: &MeshMultiZoneService) -> Service {
    let Behind::Service(service) = &service.behind else { return Service::default() };
    let has = |number: u32| group.ports.iter().any(|port| port.port == number);
    let ports = service.ports.iter().filter(|port| has(port.port)).cloned().collect();
    Service { ports, ..(**service).clone() }
}

fn selects(wanted: Option<&Labels>, service: &Destination) -> bool {
    wanted.is_some_and(|wanted| wanted.iter().all(|(key, value)| service.labels.get(key) == Some(value)))
}

fn targets(world: &World, mesh: &str) -> BTreeSet<Target> {
    let inbounds =
        world.proxies(mesh).flat_map(|proxy| proxy.dataplane.inbounds()).filter(|inbound| inbound.is_served());
    let services = inbounds.filter_map(|inbound| inbound.service()).map(|service| Target::Service(service.into()));
    let objects = world.destinations(mesh).map(|destination| Target::Object(Arc::new(destination.kri.clone())));
    services.chain(objects).collect()
}

/// Dataplanes of this zone that a MeshService selects.
fn members<'a>(membership: &'a Membership, service: &'a Destination) -> impl Iterator<Item = &'a Arc<Proxy>> {
    membership.members(&service.name).filter(|_| service.is_local())
}

fn membership(world: &World, mesh: &str) -> Membership {
    let mut membership = Membership::default();
    for destination in world.destinations(mesh).filter(|destination| destination.kind() == BackendKind::MeshService) {
        if let Behind::Service(service) = &destination.behind
            && destination.is_local()
        {
            membership.set_service(&destination.name, Some(&service.selector));
        }
    }
    for proxy in world.proxies(mesh) {
        membership.set_proxy(&proxy.name, Some(proxy));
    }
    membership
}
