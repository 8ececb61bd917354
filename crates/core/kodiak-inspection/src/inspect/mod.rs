//! Inspection of one mesh: policies in force and their merged configuration.
//!
//! ```text
//!  MeshView --> in_force: the policies of a proxy, by kind; `kodiak-rules` merges them
//!           --> reachable: its destinations
//!           --> hostnames, members: of one service, of one proxy
//! ```

pub mod hostnames;
pub mod members;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use kodiak_identity::Identity;
use kodiak_model::{
    Kind, PolicyFacts,
    kinds::{dataplane::InboundState, mesh::MeshServicesMode},
    tags,
};
use kodiak_policies::otlp_backends::{OtlpBackend, OtlpBackends};
use kodiak_rollout::Rollout;
use kodiak_rules::{Matched, PolicyIndex, Proxy, Resources, Shadow, outbound::NameResolution};
use kodiak_services::reachable::{self, Outbounds};
use kodiak_world::{Destination, World, destination::DestinationPort};

/// Resources of one mesh that inspection uses.
pub struct MeshView {
    pub mode: MeshServicesMode,
    /// The kinds of policies, in the order in which they are applied.
    pub kinds: Vec<&'static Kind>,
    pub policy_index: PolicyIndex,
    pub resources: Resources,
    pub proxies: BTreeMap<Arc<str>, Arc<Proxy>>,
    pub destinations: Vec<Arc<Destination>>,
    pub identities: Vec<Identity>,
    pub otlp_backends: OtlpBackends,
    /// Current step of mutual TLS.
    pub rollout: Rollout,
}

fn otlp_backends(world: &World, mesh: &str) -> OtlpBackends {
    let mut backends = OtlpBackends::default();
    for resource in world.list_in("MeshOpenTelemetryBackend", mesh) {
        if let Some(spec) = resource.spec() {
            let backend = OtlpBackend { labels: resource.labels.clone(), created: resource.created, spec };
            backends.set(&resource.key.name, Some(Arc::new(backend)));
        }
    }
    backends
}

impl MeshView {
    /// `kinds` are all kinds of policies, in the order in which they are applied.
    pub fn of(world: &World, mesh: &str, kinds: Vec<&'static Kind>) -> Self {
        Self {
            mode: world.mesh_services_mode(mesh),
            policy_index: world.policy_index(kinds.iter().copied(), mesh),
            resources: world.policy_targets(kinds.iter().copied(), mesh),
            kinds,
            proxies: world.proxies(mesh).map(|proxy| (proxy.name.clone(), proxy.clone())).collect(),
            destinations: world.destinations(mesh).cloned().collect(),
            identities: world.list_in("MeshIdentity", mesh).filter_map(|identity| Identity::of(identity)).collect(),
            otlp_backends: otlp_backends(world, mesh),
            rollout: kodiak_identity::current(world, mesh).unwrap_or_default(),
        }
    }

    /// Values of `kuma.io/service` that proxies serve.
    pub fn services(&self) -> BTreeSet<&str> {
        let inbounds = self.proxies.values().flat_map(|proxy| proxy.dataplane.inbounds());
        inbounds
            .filter(|inbound| inbound.state() != InboundState::Ignored)
            .filter_map(|inbound| inbound.service())
            .collect()
    }

    /// Values of `kuma.io/service` that proxies serve, or list in outbounds: these have clusters, served or not.
    pub fn legacy_services(&self) -> BTreeSet<String> {
        let listed = self.proxies.values().flat_map(|proxy| proxy.dataplane.usable_outbounds());
        let listed = listed.filter_map(|outbound| outbound.tags.get(tags::SERVICE));
        listed.cloned().chain(self.services().into_iter().map(str::to_owned)).collect()
    }

    /// Destinations that a proxy has outbounds for. `redirected` is whether the proxy is transparent.
    pub fn outbounds(&self, proxy: &Proxy, redirected: bool) -> Outbounds<'_> {
        reachable::outbounds(self.mode, proxy, redirected, self.services(), &self.destinations)
    }

    /// Whether values of `kuma.io/service` are destinations, beside those that are objects.
    pub fn has_legacy_destinations(&self) -> bool {
        reachable::has_legacy_destinations(self.mode)
    }

    /// Meaning of the plain name of a MeshService in policies of this mesh.
    pub fn resolution(&self) -> NameResolution {
        reachable::name_resolution(self.mode)
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
