//! A built resource: its bytes, and the references that the checker needs.

use std::sync::Arc;

use kodiak_envoy::envoy::config::cluster::v3::Cluster;
use kodiak_envoy::envoy::config::endpoint::v3::ClusterLoadAssignment;
use kodiak_envoy::envoy::config::listener::v3::Listener;
use kodiak_envoy::envoy::extensions::transport_sockets::tls::v3::Secret;
use kodiak_xds_stream::{Encoded, TypeUrl, Version};

use crate::check::Links;
use crate::{encode, encode_as};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Built {
    pub type_url: TypeUrl,
    pub encoded: Arc<Encoded>,
    pub links: Arc<Links>,
}

pub fn build_listener(listener: &Listener) -> Built {
    Built {
        type_url: TypeUrl::Listener,
        encoded: encode(&listener.name, listener),
        links: Arc::new(Links::of_listener(listener)),
    }
}

pub fn build_cluster(cluster: &Cluster) -> Built {
    Built {
        type_url: TypeUrl::Cluster,
        encoded: encode(&cluster.name, cluster),
        links: Arc::new(Links::of_cluster(cluster)),
    }
}

pub fn build_assignment(assignment: &ClusterLoadAssignment) -> Built {
    let links = Links::of_assignment(assignment);
    Built { type_url: TypeUrl::Endpoint, encoded: encode(&assignment.cluster_name, assignment), links: Arc::new(links) }
}

pub fn build_secret(secret: &Secret) -> Built {
    Built {
        type_url: TypeUrl::Secret,
        encoded: encode(&secret.name, secret),
        links: Arc::new(Links::of_secret(secret)),
    }
}

/// For a secret whose bytes differ each time it is built.
pub fn build_secret_as(version: Version, secret: &Secret) -> Built {
    Built {
        type_url: TypeUrl::Secret,
        encoded: encode_as(&secret.name, version, secret),
        links: Arc::new(Links::of_secret(secret)),
    }
}
