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

/// Policies that are converted together, with the sets of inbounds that they select.
pub(super) struct Group<'a> {
    pub(super) names: BTreeSet<Arc<str>>,
    pub(super) sets: Vec<&'a InboundSet>,
}

/// Connected components: two policies are connected where they select the same inbound. The cost is proportional to the
/// policies and the sets. Groups that select inbounds come first.
pub(super) fn groups(names: impl IntoIterator<Item = Arc<str>>, sets: &[InboundSet]) -> Vec<Group<'_>> {
    let names: Vec<Arc<str>> = names.into_iter().collect();
    let place_of: BTreeMap<&str, usize> = names.iter().enumerate().map(|(place, name)| (&**name, place)).collect();
    let mut roots: Vec<usize> = (0..names.len()).collect();
    let members = |set: &InboundSet| -> Vec<usize> {
        set.policies.iter().filter_map(|policy| place_of.get(&*policy.name).copied()).collect()
    };
    for set in sets {
        let mut meeting = members(set).into_iter();
        let Some(first) = meeting.next() else { continue };
        for other in meeting {
            let (a, b) = (root(&mut roots, first), root(&mut roots, other));
            roots[a.max(b)] = a.min(b);
        }
    }
    let mut groups: BTreeMap<usize, Group<'_>> = BTreeMap::new();
    for (place, name) in names.iter().enumerate() {
        let empty = || Group { names: BTreeSet::new(), sets: Vec::new() };
        groups.entry(root(&mut roots, place)).or_insert_with(empty).names.insert(name.clone());
    }
    for set in sets {
        let Some(first) = members(set).first().map(|place| root(&mut roots, *place)) else { continue };
        groups.entry(first).and_modify(|group| group.sets.push(set));
    }
    let mut groups: Vec<Group<'_>> = groups.into_values().collect();
    groups.sort_by(|a, b| a.sets.is_empty().cmp(&b.sets.is_empty()).then_with(|| a.names.cmp(&b.names)));
    groups
}

/// Representative of a component, with shorter paths for the next question.
fn root(roots: &mut [usize], of: usize) -> usize {
    let mut at = of;
    while roots[at] != at {
        roots[at] = roots[roots[at]];
        at = roots[at];
    }
    at
}
