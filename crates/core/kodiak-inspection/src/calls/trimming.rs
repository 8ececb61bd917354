//! Destinations that reachability removes from the configuration of a client, or would remove.
//!
//! The engine decides by the same facts: the graph of `kodiak-reachability`, lists of the Dataplane, and routes.

use std::collections::BTreeSet;

use kodiak_model::{Cancellation, Cancelled, ResourceKey, tags};
use kodiak_reachability::{MeshGraph, Mode, ModeSource, Purpose, SetId, Target, rollout};
use kodiak_rules::{Proxy, Shadow};
use kodiak_world::World;
use serde::{Deserialize, Serialize};

use super::{Backend, ClientRoutes, Routes};

/// Why a client keeps all destinations, whatever its mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Exempt {
    /// Servers accept plain text, so no destination may be removed.
    NotEnforced,
    /// Its Dataplane lists outbounds.
    NotTransparent,
}

/// Facts of a mesh.
pub struct Trimming<'a> {
    world: &'a World,
    graph: MeshGraph,
    applies: bool,
    setting: Mode,
    mesh_mode: Option<Mode>,
    routes: Routes<'a>,
}

/// Facts of one client.
pub struct ClientTrimming<'a> {
    mesh: &'a Trimming<'a>,
    /// Sets of destinations that it may call. `None`: all.
    sets: Option<BTreeSet<SetId>>,
    routes: ClientRoutes<'a>,
}

impl<'a> Trimming<'a> {
    /// `setting` is that of the control plane.
    pub fn of(world: &'a World, mesh: &'a str, setting: Mode, cancellation: &Cancellation) -> Result<Self, Cancelled> {
        let own = world.get(&ResourceKey::global("Mesh", mesh));
        Ok(Self {
            world,
            graph: MeshGraph::of(world, mesh, Purpose::Trimming, Shadow::Ignored, cancellation)?,
            applies: Purpose::Trimming.is_decided_by_permissions(&rollout(world, mesh)),
            setting,
            mesh_mode: own.and_then(|own| Mode::in_labels(&own.labels)),
            routes: Routes::of(world, mesh),
        })
    }

    pub fn mode(&self, client: &Proxy) -> (Mode, ModeSource) {
        Mode::of(self.setting, self.mesh_mode, &client.labels)
    }

    /// `None` when destinations may be trimmed. A proxy that never connected counts as transparent, unless its Dataplane
    /// lists outbounds.
    pub fn exempt(&self, client: &Proxy) -> Option<Exempt> {
        let redirected = self.world.redirects_outbound(client);
        let redirected = redirected.unwrap_or_else(|| client.dataplane.usable_outbounds().next().is_none());
        if self.applies { (!redirected).then_some(Exempt::NotTransparent) } else { Some(Exempt::NotEnforced) }
    }

    pub fn client(&'a self, client: &'a Proxy) -> ClientTrimming<'a> {
        let sets = self.graph.sets_of_client(&client.name).map(|sets| sets.into_iter().collect());
        ClientTrimming { mesh: self, sets, routes: self.routes.client(client) }
    }
}

impl ClientTrimming<'_> {
    pub fn may_call(&self, target: &Target) -> bool {
        let Some(sets) = &self.sets else { return true };
        self.mesh.graph.set_of(target).is_none_or(|set| sets.contains(&set))
    }

    /// Whether mode `on` removes all ports of the destination from a client that is not exempt.
    pub fn trims(&self, target: &Target) -> bool {
        match target {
            Target::Service(name) => {
                self.trims_port(&Backend::Service([(tags::SERVICE.to_owned(), name.to_string())].into()))
            }
            Target::Object(kri) => {
                let found = self.mesh.world.destinations(&kri.mesh).filter(|one| one.kri == **kri);
                let ports = found.flat_map(|one| one.ports.iter().map(|port| Backend::Port(one.clone(), port.clone())));
                let mut ports = ports.peekable();
                if ports.peek().is_none() { !self.may_call(target) } else { ports.all(|port| self.trims_port(&port)) }
            }
        }
    }

    /// Whether mode `on` removes the outbound for a service or a port: no server that its traffic gets to may admit the
    /// client.
    pub fn trims_port(&self, called: &Backend) -> bool {
        !self.routes.may_be_answered(called, |backend| self.may_call(&backend.target()))
    }
}
