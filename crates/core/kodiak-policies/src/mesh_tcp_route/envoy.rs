//! Sets the cluster or weighted clusters of a TCP proxy.

#[cfg(test)]
mod tests;

use std::{collections::BTreeSet, sync::Arc};

use kodiak_envoy::envoy::extensions::filters::network::tcp_proxy::v3::tcp_proxy::weighted_cluster::ClusterWeight;
use kodiak_envoy::envoy::extensions::filters::network::tcp_proxy::v3::tcp_proxy::{ClusterSpecifier, WeightedCluster};
use kodiak_model::BackendRef;

use crate::routes::{Split, splits};
use crate::target::{Backends, Carrier, NOWHERE, Outbound};

/// Without backends, connections go to the destination itself.
pub(super) fn apply(written: &[BackendRef], outbound: &mut Outbound<'_>) {
    let Carrier::Tcp(tcp) = &mut outbound.carrier else { return };
    let Some(first) = written.first() else { return };
    tcp.proxy.cluster_specifier = Some(match splits(written, outbound.backends).as_slice() {
        [] => ClusterSpecifier::Cluster(nowhere(first)),
        [Split { backend, .. }] => ClusterSpecifier::Cluster(backend.cluster.to_string()),
        several => ClusterSpecifier::WeightedClusters(WeightedCluster {
            clusters: several.iter().map(cluster_weight).collect(),
        }),
    });
}

/// Clusters that connections of a destination with the cluster `own` get to.
pub(super) fn clusters(written: &[BackendRef], own: &Arc<str>, backends: &Backends) -> BTreeSet<Arc<str>> {
    if written.is_empty() {
        return BTreeSet::from([own.clone()]);
    }
    splits(written, backends).into_iter().map(|split| split.backend.cluster.clone()).collect()
}

/// A cluster that never exists, so that Envoy closes the connections instead of sending them to the destination. Its
/// name shows the missing backend in logs. It cannot collide with a service: names of services contain no colon.
fn nowhere(first: &BackendRef) -> String {
    format!("{NOWHERE}{}", first.name.as_deref().unwrap_or_default())
}

fn cluster_weight(split: &Split<'_>) -> ClusterWeight {
    ClusterWeight { name: split.backend.cluster.to_string(), weight: split.weight, ..ClusterWeight::default() }
}
