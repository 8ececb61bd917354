//! Instances that are called by their own addresses.

use kodiak_envoy::envoy::config::cluster::v3::Cluster;

use crate::input::DirectAccessCluster;
use crate::{names, passthrough, tls};

/// Connects to the address that the application called, with mTLS. Any proxy of the mesh may be there.
pub fn cluster(direct: &DirectAccessCluster) -> Cluster {
    let socket = direct
        .peer
        .as_ref()
        .map(|peer| tls::socket(&tls::upstream(names::validation_secret(&direct.mesh), &direct.mesh, peer)));
    Cluster { transport_socket: socket, ..passthrough::original_destination(names::DIRECT_ACCESS) }
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
        let peer = || Arc::new(Peer { sni: String::new(), ..Peer::default() });
        let of = |mtls: bool| cluster(&DirectAccessCluster { mesh: "default".into(), peer: mtls.then(peer) });
        let with_mtls = of(true);
        assert_eq!(at(&with_mtls, "/type"), "ORIGINAL_DST");
        assert_eq!(at(&with_mtls, "/lbPolicy"), "CLUSTER_PROVIDED");
        let secret = "/transportSocket/typedConfig/commonTlsContext/validationContextSdsSecretConfig/name";
        assert_eq!(at(&with_mtls, secret), "mesh_ca:secret:default");
        assert_eq!(at(&of(false), "/transportSocket"), Value::Null);
    }
}
