//! Destinations that reachability removes from the configuration of a client, or would remove.
//!
//! The engine decides by the same facts: the graph of `kodiak-reachability`, lists of the Dataplane, and routes.

use std::{collections::BTreeSet, sync::Arc};

use kodiak_model::{Cancellation, Cancelled, Kri, PortSection, ResourceKey, policy::ConfShape, tags};
use kodiak_reachability::{MeshGraph, Mode, ModeSource, Purpose, SetId, Target, rollout};
use kodiak_rules::{
    Policy, PolicyIndex, Proxy, Resources, Shadow,
    outbound::{Asked, NameResolution},
    subset,
};
use kodiak_services::reachable;
use kodiak_world::{World, destination::KINDS};
use serde::{Deserialize, Serialize};

/// Why a client keeps all destinations, whatever its mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Exempt {
    /// Servers accept plain text, so no destination may be removed.
    NotEnforced,
    /// Its Dataplane lists outbounds.
    NotTransparent,
    /// Its Dataplane has a reachable list.
    Listed,
}

/// Facts of a mesh.
pub struct Trimming<'a> {
    world: &'a World,
    graph: MeshGraph,
    applies: bool,
    setting: Mode,
    mesh_mode: Option<Mode>,
    route_kinds: Vec<&'static str>,
    routes: PolicyIndex,
    resources: Resources,
    resolution: NameResolution,
}

/// Facts of one client.
pub struct ClientTrimming<'a> {
    mesh: &'a Trimming<'a>,
    /// Sets of destinations that it may call. `None`: all.
    sets: Option<BTreeSet<SetId>>,
    /// Its routes, by kind.
    routes: Vec<(Vec<Arc<Policy>>, Asked)>,
}

impl<'a> Trimming<'a> {
    /// `setting` is that of the control plane.
    pub fn of(world: &'a World, mesh: &str, setting: Mode, cancellation: &Cancellation) -> Result<Self, Cancelled> {
        let kinds = kodiak_policies::in_force().iter().map(|policy| policy.kind());
        let is_route = |shape: ConfShape| shape != ConfShape::Default;
        let kinds: Vec<_> = kinds.filter(|kind| kind.policy.is_some_and(|facts| is_route(facts.conf))).collect();
        let own = world.get(&ResourceKey::global("Mesh", mesh));
        Ok(Self {
            world,
            graph: MeshGraph::of(world, mesh, Purpose::Trimming, Shadow::Ignored, cancellation)?,
            applies: Purpose::Trimming.is_decided_by_permissions(&rollout(world, mesh)),
            setting,
            mesh_mode: own.and_then(|own| Mode::in_labels(&own.labels)),
            route_kinds: kinds.iter().map(|kind| kind.name).collect(),
            routes: world.policy_index(kinds.iter().copied(), mesh),
            resources: world.policy_targets(kinds, mesh),
            resolution: reachable::name_resolution(world.mesh_services_mode(mesh)),
        })
    }

    pub fn mode(&self, client: &Proxy) -> (Mode, ModeSource) {
        Mode::of(self.setting, self.mesh_mode, &client.labels)
    }

    /// `None` when destinations may be trimmed. A proxy that never connected counts as transparent, unless its Dataplane
    /// lists outbounds.
    pub fn exempt(&self, client: &Proxy) -> Option<Exempt> {
        let lists =
            client.dataplane.networking.as_ref().and_then(|networking| networking.transparent_proxying.as_ref());
        let has_list = lists.is_some_and(|all| !all.reachable_services.is_empty() || all.reachable_backends.is_some());
        let redirected = self.world.redirects_outbound(client);
        if !self.applies {
            Some(Exempt::NotEnforced)
        } else if !redirected.unwrap_or_else(|| client.dataplane.usable_outbounds().next().is_none()) {
            Some(Exempt::NotTransparent)
        } else {
            has_list.then_some(Exempt::Listed)
        }
    }

    pub fn client(&'a self, client: &Proxy) -> ClientTrimming<'a> {
        let routes = self.route_kinds.iter().map(|kind| self.routes.matched_by(kind, client, Shadow::Ignored));
        let routes = routes.map(|matched| {
            let outbound = matched.proxy.iter().filter(|policy| !policy.body.to.is_empty());
            outbound.cloned().collect::<Vec<Arc<Policy>>>()
        });
        let routes = routes.filter(|policies| !policies.is_empty());
        let routes = routes.map(|policies| {
            let asked = Asked::new(&policies, self.resolution);
            (policies, asked)
        });
        let sets = self.graph.sets_of_client(&client.name).map(|sets| sets.into_iter().collect());
        ClientTrimming { mesh: self, sets, routes: routes.collect() }
    }
}

impl ClientTrimming<'_> {
    pub fn may_call(&self, target: &Target) -> bool {
        let Some(sets) = &self.sets else { return true };
        self.mesh.graph.set_of(target).is_none_or(|set| sets.contains(&set))
    }

    /// Whether mode `on` removes the destination from a client that is not exempt. One with a route stays: the route may
    /// send requests to another one, which the client may call.
    pub fn trims(&self, target: &Target) -> bool {
        !self.may_call(target) && !self.is_routed(target)
    }

    /// Whether a MeshHTTPRoute or MeshTCPRoute of the client decides where its requests go.
    pub fn is_routed(&self, target: &Target) -> bool {
        self.routes.iter().any(|(policies, asked)| match target {
            Target::Service(name) => {
                let tags = [(tags::SERVICE, &**name)];
                subset::for_destination(policies, &self.mesh.resources, &tags).is_ok_and(|rules| !rules.is_empty())
            }
            Target::Object(kri) => {
                self.sections(kri).iter().any(|(resource, section)| asked.about(resource, section).is_some())
            }
        })
    }

    /// Ports of a resource, as policies target them.
    fn sections(&self, kri: &Kri) -> Vec<(kodiak_rules::Resource, String)> {
        let found = self.mesh.world.destinations(&kri.mesh).filter(|one| one.kri == *kri);
        let found = found.flat_map(|one| {
            let sections = one.ports.iter();
            let sections = sections.map(|port| PortSection { port: port.port, section: port.section.clone() });
            let kind = KINDS.iter().find(|(_, kind)| *kind == one.kind()).map(|(kind, _)| *kind);
            let resource = kind.map(|kind| kodiak_rules::Resource {
                kind,
                mesh: one.kri.mesh.as_str().into(),
                name: one.name.clone(),
                labels: one.labels.clone(),
                ports: sections.collect(),
            });
            let ports = one.ports.iter().map(|port| port.section.clone());
            resource.into_iter().flat_map(|own| ports.clone().map(move |port| (own.clone(), port))).collect::<Vec<_>>()
        });
        found.collect()
    }
}
