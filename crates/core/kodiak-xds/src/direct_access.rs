//! Instances that are called by their own addresses.

use kodiak_envoy::envoy::config::cluster::v3::{Cluster, cluster::DiscoveryType};

use crate::input::{DirectAccess, DirectAccessCluster};
use crate::{clusters, names, passthrough, tls};

/// Connects to the address that the application called. With mTLS, any proxy of the mesh may be there.
pub fn cluster(direct: &DirectAccessCluster) -> Cluster {
    let DirectAccessCluster { mesh, name, access } = direct;
    match access {
        DirectAccess::Plaintext => passthrough::original_destination(name),
        DirectAccess::Mtls(peer) => Cluster {
            transport_socket: Some(tls::socket(&tls::upstream(names::validation_secret(mesh), mesh, peer))),
            ..passthrough::original_destination(name)
        },
        // Without endpoints.
        DirectAccess::Closed => clusters::with_stat_name(clusters::cluster(name, DiscoveryType::Static)),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::Value;

    use super::*;
    use crate::input::Peer;
    use crate::testing::at;

    #[test]
    fn original_address_is_called_with_any_identity_of_the_mesh() {
        let name = names::DIRECT_ACCESS;
        let of = |access| cluster(&DirectAccessCluster { mesh: "default".into(), name, access });
        let with_mtls = of(DirectAccess::Mtls(Arc::new(Peer::default())));
        assert_eq!(at(&with_mtls, "/type"), "ORIGINAL_DST");
        assert_eq!(at(&with_mtls, "/lbPolicy"), "CLUSTER_PROVIDED");
        let secret = "/transportSocket/typedConfig/commonTlsContext/validationContextSdsSecretConfig/name";
        assert_eq!(at(&with_mtls, secret), "mesh_ca:secret:default");
        assert_eq!(at(&of(DirectAccess::Plaintext), "/transportSocket"), Value::Null);
        let closed = of(DirectAccess::Closed);
        assert_eq!((at(&closed, "/type"), at(&closed, "/loadAssignment")), ("STATIC".into(), Value::Null));
    }
}
