//! Calls that permissions allow, for a whole mesh: the call graph, calls that a change would break, and destinations that
//! are trimmed.
//!
//! ```text
//!  kodiak-reachability --> sets: destinations with the same callers
//!                          CallGraph: one edge for each set and reason, never one for each pair
//!                          LostCalls: sets of one graph against sets of another one
//!  with observed traffic -> PermissionCheck: who loses access and how often they called
//!                          Consumers: what reachability trims or would trim from each proxy
//! ```
//!
//! Answers have a `Serialize`: `kodiak-cli` computes them from files too, and both give the same JSON.

mod assumed;
mod check;
mod clients;
mod consumers;
mod graph;
mod lost;
mod names;
mod routes;
#[cfg(test)]
pub(crate) mod tests;
mod trimming;

use std::{collections::BTreeSet, sync::Arc};

use kodiak_model::{Cancellation, Cancelled};
use kodiak_reachability::{MeshGraph, Purpose, Target};
use kodiak_rules::Shadow;
use kodiak_services::reachable::has_legacy_destinations;
use kodiak_world::World;

pub use assumed::{with_shadow_denials, with_strict_mtls};
pub use check::{DeniedTraffic, PermissionCheck};
pub use clients::{Clients, group};
pub use consumers::{Consumer, Consumers, ModeOrigin, UsedDestination};
pub use graph::{CallGraph, Edge, EdgeReason, UnknownName};
pub use lost::{LostCall, LostCalls, LostReason};
pub use names::Names;
pub use routes::{Backend, ClientRoutes, Routes};
pub use trimming::{ClientTrimming, Exempt, Trimming};

/// Permissions of one mesh, with its clients and destinations.
pub struct Calls {
    pub mesh: String,
    /// Callers that servers admit.
    pub graph: MeshGraph,
    pub clients: Clients,
    /// Destinations that proxies can have outbounds for.
    pub destinations: BTreeSet<Target>,
}

impl Calls {
    pub fn of(world: &World, mesh: &str, shadow: Shadow, cancellation: &Cancellation) -> Result<Self, Cancelled> {
        let graph = MeshGraph::of(world, mesh, Purpose::Calls, shadow, cancellation)?;
        let legacy = has_legacy_destinations(world.mesh_services_mode(mesh));
        // No Dataplane has this name, and an unknown client may call everything.
        let all = graph.destinations(&Arc::from("")).into_iter();
        let destinations = all.filter(|target| legacy || target.object().is_some()).cloned().collect();
        Ok(Self { mesh: mesh.to_owned(), graph, clients: Clients::of(world.proxies(mesh)), destinations })
    }
}

/// Name of a destination in answers: a value of `kuma.io/service`, or a KRI.
pub fn target_name(target: &Target) -> String {
    match target {
        Target::Service(service) => service.to_string(),
        Target::Object(kri) => kri.to_string(),
    }
}
