//! A built resource: its bytes, and the references that the checker needs.

use std::sync::Arc;

use kodiak_envoy::envoy::config::cluster::v3::Cluster;
use kodiak_envoy::envoy::config::endpoint::v3::ClusterLoadAssignment;
use kodiak_envoy::envoy::config::listener::v3::Listener;
use kodiak_envoy::envoy::extensions::transport_sockets::tls::v3::Secret;
use kodiak_xds_stream::{Encoded, TypeUrl, Version};

use crate::check::Links;
use crate::encode::{encode_as, encode_referring};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Built {
    pub type_url: TypeUrl,
    pub encoded: Arc<Encoded>,
    pub links: Arc<Links>,
}

pub fn build_listener(listener: &Listener) -> Built {
    build(TypeUrl::Listener, &listener.name, listener, Links::of_listener(listener))
}

pub fn build_cluster(cluster: &Cluster) -> Built {
    build(TypeUrl::Cluster, &cluster.name, cluster, Links::of_cluster(cluster))
}

pub fn build_assignment(assignment: &ClusterLoadAssignment) -> Built {
    build(TypeUrl::Endpoint, &assignment.cluster_name, assignment, Links::of_assignment(assignment))
}

pub fn build_secret(secret: &Secret) -> Built {
    build(TypeUrl::Secret, &secret.name, secret, Links::of_secret(secret))
}

fn build<M: kodiak_envoy::TypeUrl>(type_url: TypeUrl, name: &str, message: &M, links: Links) -> Built {
    Built { type_url, encoded: encode_referring(name, message, &links.needs), links: Arc::new(links) }
}

/// For a secret whose bytes differ each time it is built.
pub fn build_secret_as(version: Version, secret: &Secret) -> Built {
    Built {
        type_url: TypeUrl::Secret,
        encoded: encode_as(&secret.name, version, secret),
        links: Arc::new(Links::of_secret(secret)),
    }
}
