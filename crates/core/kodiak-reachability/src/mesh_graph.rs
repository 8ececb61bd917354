//! The graph of a whole mesh, from its resources.

#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use kodiak_identity::TlsPolicies;
use kodiak_model::{Cancellation, Cancelled, kinds::dataplane::BackendKind};
use kodiak_policies::mesh_traffic_permission::KIND;
use kodiak_rollout::Rollout;
use kodiak_rules::Shadow;
use kodiak_services::membership::Membership;
use kodiak_world::{Destination, World, destination::Behind};

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
        all.insert(Target::Service(service.into()), source.inbounds(inbounds));
    }
    let membership = membership(world, mesh);
    let mut services: Vec<(&Destination, Admission)> = Vec::new();
    for destination in world.destinations(mesh) {
        cancellation.check()?;
        if let Behind::Service(service) = &destination.behind {
            let members = membership.members(&destination.name).filter(|_| destination.is_local());
            services.push((&**destination, source.service(destination, service, members)));
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
                let selects = |service: &Destination| {
                    wanted
                        .is_some_and(|wanted| wanted.iter().all(|(key, value)| service.labels.get(key) == Some(value)))
                };
                Admission::any(services.iter().filter(|(service, _)| selects(service)).map(|(_, one)| one.clone()))
            }
        };
        all.insert(Target::Object(Arc::new(destination.kri.clone())), admission);
    }
    Ok(all)
}

fn targets(world: &World, mesh: &str) -> BTreeSet<Target> {
    let inbounds =
        world.proxies(mesh).flat_map(|proxy| proxy.dataplane.inbounds()).filter(|inbound| inbound.is_served());
    let services = inbounds.filter_map(|inbound| inbound.service()).map(|service| Target::Service(service.into()));
    let objects = world.destinations(mesh).map(|destination| Target::Object(Arc::new(destination.kri.clone())));
    services.chain(objects).collect()
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
