//! Inspection of one mesh: policies in force and their merged configuration.
//!
//! ```text
//!  MeshView --> in_force: the policies of a proxy, by kind; `kodiak-rules` merges them
//!           --> reachable: its destinations
//!           --> hostnames, members, spiffe_id: of one service, of one proxy
//! ```

pub mod hostnames;
pub mod members;
pub mod spiffe_id;

use std::{collections::BTreeMap, sync::Arc};

use kodiak_model::{Kind, PolicyFacts, kinds::mesh::MeshServicesMode};
use kodiak_rules::{Matched, PolicyIndex, Proxy, Resources, Shadow, outbound::NameResolution};
use kodiak_services::reachable;
use kodiak_world::{Destination, destination::DestinationPort};

/// Resources of one mesh that inspection uses.
pub struct MeshView {
    pub mode: MeshServicesMode,
    /// The kinds of policies, in the order in which they are applied.
    pub kinds: Vec<&'static Kind>,
    pub policy_index: PolicyIndex,
    pub resources: Resources,
    pub proxies: BTreeMap<Arc<str>, Arc<Proxy>>,
    pub destinations: Vec<Arc<Destination>>,
    pub identities: Vec<spiffe_id::Identity>,
}

impl MeshView {
    /// Policies name destinations by MeshService alone.
    pub fn is_exclusive(&self) -> bool {
        self.mode == MeshServicesMode::Exclusive
    }

    /// Meaning of the plain name of a MeshService in routes of this mesh.
    pub fn resolution(&self) -> NameResolution {
        if self.is_exclusive() { NameResolution::Objects } else { NameResolution::Both }
    }

    /// Destinations of a proxy that are objects. `redirected` is whether the proxy is transparent.
    pub fn reachable(&self, proxy: &Proxy, redirected: bool) -> Vec<(&Destination, &DestinationPort)> {
        reachable::reachable(&self.destinations, self.mode, proxy, redirected)
    }

    /// Policies in force on a proxy, by kind, for the given kinds.
    pub fn in_force<'a>(
        &'a self,
        proxy: &'a Proxy,
        wanted: impl Fn(PolicyFacts) -> bool + 'a,
    ) -> impl Iterator<Item = (&'static Kind, PolicyFacts, Arc<Matched>)> + 'a {
        let kinds = self.kinds.iter().filter_map(|kind| Some((*kind, kind.policy?)));
        kinds
            .filter(move |(_, facts)| wanted(*facts))
            .map(|(kind, facts)| (kind, facts, self.policy_index.matched_by(kind.name, proxy, Shadow::Ignored)))
    }
}

/// A policy for the proxy as a whole: it speaks of neither callers nor destinations.
pub fn is_for_whole_proxy(facts: PolicyFacts) -> bool {
    !(facts.to || facts.from || facts.rules)
}
