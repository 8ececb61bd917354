//! Inbounds with equal policies, and policies that meet at an inbound.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use kodiak_policies::mesh_traffic_permission::KIND;
use kodiak_rules::{Policy, Shadow};
use kodiak_world::World;

/// Inbounds with the same permissions.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct InboundSet {
    /// In ascending precedence.
    pub(super) policies: Vec<Arc<Policy>>,
    /// Dataplane and port of one of them.
    pub(super) example: String,
    pub(super) inbounds: usize,
}

/// Inbounds without any policy are left out: nobody may call them, before and after.
pub(super) fn sets(world: &World, mesh: &str) -> Vec<InboundSet> {
    let index = world.policy_index([&KIND], mesh);
    let mut known: BTreeMap<Vec<Arc<str>>, usize> = BTreeMap::new();
    let mut sets: Vec<InboundSet> = Vec::new();
    for proxy in world.proxies(mesh) {
        let matched = index.matched(KIND.name, &proxy.name, Shadow::Ignored);
        for (position, policies) in &matched.inbounds {
            let names = policies.iter().map(|policy| policy.name.clone()).collect();
            let place = *known.entry(names).or_insert(sets.len());
            if let Some(set) = sets.get_mut(place) {
                set.inbounds += 1;
                continue;
            }
            let port = proxy.dataplane.inbounds().get(*position).map_or(0, |inbound| inbound.port);
            let example = format!("port {port} of Dataplane {}", proxy.name);
            sets.push(InboundSet { policies: policies.clone(), example, inbounds: 1 });
        }
    }
    sets
}

/// Policies that are converted together.
pub(super) struct Groups(Vec<(bool, BTreeSet<Arc<str>>)>);

impl Groups {
    pub(super) fn of(names: impl IntoIterator<Item = Arc<str>>, sets: &[InboundSet]) -> Self {
        let mut groups: Vec<(bool, BTreeSet<Arc<str>>)> =
            names.into_iter().map(|name| (false, BTreeSet::from([name]))).collect();
        for set in sets {
            let is_in = |(_, group): &(bool, BTreeSet<Arc<str>>)| {
                set.policies.iter().any(|policy| group.contains(&policy.name))
            };
            let (meeting, mut others): (Vec<_>, Vec<_>) = groups.into_iter().partition(is_in);
            if !meeting.is_empty() {
                others.push((true, meeting.into_iter().flat_map(|(_, group)| group).collect()));
            }
            groups = others;
        }
        groups.sort_by(|(a, first), (b, second)| b.cmp(a).then_with(|| first.cmp(second)));
        Self(groups)
    }

    /// Those that select inbounds first.
    pub(super) fn in_order(&self) -> impl Iterator<Item = &BTreeSet<Arc<str>>> {
        self.0.iter().map(|(_, group)| group)
    }
}
