//! Destinations that a class may call.

use std::collections::BTreeSet;

use super::{Sources, Traffic};
use crate::{
    class_key::ClassKey,
    rules::Rules,
    target::{ClusterTarget, Target},
};

/// All targets that may be reachable. `None` if that can be any.
pub(super) fn named_targets(key: &ClassKey, rules: &Rules, from: Sources<'_>) -> Option<BTreeSet<Target>> {
    let mut named = key.named_targets()?;
    if let (Some(sets), Some(graph)) = (&key.permitted, from.graph) {
        // A destination that it may not call stays if a route sends its traffic to one that it may call.
        named.extend(rules.routed()?.flat_map(|interest| from.objects.meeting(interest)));
        named.extend(sets.iter().flat_map(|set| graph.destinations_of(*set)).cloned());
    }
    Some(named)
}

/// Whether a class may have an outbound for a destination. With routes, that depends on where its traffic gets to.
pub(super) fn may_have(key: &ClassKey, rules: &Rules, from: Sources<'_>, target: impl FnOnce() -> Target) -> bool {
    rules.have_routes() || is_permitted(key, from, target)
}

/// Whether a server that the traffic of an outbound gets to may admit the class, or the proxy itself answers. `own` is the
/// cluster of the destination.
pub(super) fn may_be_answered(
    key: &ClassKey,
    from: Sources<'_>,
    own: &ClusterTarget,
    Traffic { merged, carried, route_backends }: Traffic<'_>,
) -> bool {
    let is_permitted = |cluster: &ClusterTarget| is_permitted(key, from, || cluster.destination());
    let Some((policy, conf)) = merged.route(carried).filter(|_| key.permitted.is_some()) else {
        return is_permitted(own);
    };
    if policy.redirects(conf) {
        return true;
    }
    let naming = from.view.naming;
    let mut reached = policy.clusters(conf, &own.cluster_name(naming), &route_backends.backends);
    reached.extend(policy.mirrors(conf, &route_backends.backends));
    let mut clusters = route_backends.cluster_targets.iter().chain([own]);
    clusters.any(|cluster| reached.contains(&cluster.cluster_name(naming)) && is_permitted(cluster))
}

/// An unknown destination is permitted.
fn is_permitted(key: &ClassKey, from: Sources<'_>, target: impl FnOnce() -> Target) -> bool {
    let (Some(sets), Some(graph)) = (&key.permitted, from.graph) else { return true };
    graph.set_of(&target()).is_none_or(|set| sets.binary_search(&set).is_ok())
}
