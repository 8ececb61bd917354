//! Minimal resources for clients.

use std::sync::Arc;
use std::time::Duration;

use kodiak_envoy::any;
use kodiak_envoy::envoy::config::cluster::v3::Cluster;
use kodiak_envoy::envoy::config::listener::v3::Listener;
use kodiak_envoy::envoy::service::discovery::v3::{DeltaDiscoveryResponse, DiscoveryResponse, Resource};
use kodiak_xds_stream::{Encoded, Need, TypeUrl, Version};
use prost::{Message, Name};

/// As `kodiak-xds` does it: each protocol gets an entry of its `resources`.
pub(crate) fn encode<M>(name: &str, message: &M, needs: &[Need]) -> Arc<Encoded>
where
    M: Message + Name + kodiak_envoy::TypeUrl,
{
    let resource = any(message);
    let version = Version::of_set([(format!("{resource:?}").as_str(), Version(0))]);
    let sotw = DiscoveryResponse { resources: vec![resource.clone()], ..DiscoveryResponse::default() };
    let entry = Resource {
        name: name.to_owned(),
        version: version.to_string(),
        resource: Some(resource),
        ..Resource::default()
    };
    let delta = DeltaDiscoveryResponse { resources: vec![entry], ..DeltaDiscoveryResponse::default() };
    let (delta, sotw) = (delta.encode_to_vec().into(), sotw.encode_to_vec().into());
    Arc::new(Encoded { name: name.into(), version, needs: needs.into(), delta, sotw })
}

/// A cluster that differs from others of the same name by its timeout.
pub(crate) fn cluster(name: &str, timeout: u64) -> (TypeUrl, Arc<Encoded>) {
    sized_cluster(name, timeout, 0)
}

/// At least this many bytes long.
pub(crate) fn sized_cluster(name: &str, timeout: u64, length: usize) -> (TypeUrl, Arc<Encoded>) {
    let cluster = Cluster {
        name: name.to_owned(),
        connect_timeout: Some(kodiak_envoy::duration(Duration::from_secs(timeout))),
        alt_stat_name: "x".repeat(length),
        ..Cluster::default()
    };
    (TypeUrl::Cluster, encode(name, &cluster, &[]))
}

/// A listener that uses a cluster, and differs from others of the same name by its prefix.
pub(crate) fn listener(name: &str, prefix: &str, cluster: &str) -> (TypeUrl, Arc<Encoded>) {
    let listener = Listener { name: name.to_owned(), stat_prefix: prefix.to_owned(), ..Listener::default() };
    (TypeUrl::Listener, encode(name, &listener, &[(TypeUrl::Cluster, cluster.into())]))
}

/// A cluster without content, in this version.
pub(crate) fn numbered(name: &str, version: u128) -> (TypeUrl, Arc<Encoded>) {
    let (needs, delta, sotw) = Default::default();
    (TypeUrl::Cluster, Arc::new(Encoded { name: name.into(), version: Version(version), needs, delta, sotw }))
}
