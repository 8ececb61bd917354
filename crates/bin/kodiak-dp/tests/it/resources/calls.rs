//! Calls from one running proxy to another.

use std::sync::Arc;

use kodiak_envoy::envoy::config::cluster::v3::Cluster;
use kodiak_envoy::envoy::config::cluster::v3::cluster::{ClusterDiscoveryType, DiscoveryType};
use kodiak_model::{InboundTls, Protocol};
use kodiak_testkit::envoy::envoy;
use kodiak_xds::input::{Assignment, Endpoint, Inbound, OutboundListener, Shape};
use kodiak_xds::{endpoints, inbound, outbound};

use super::inputs::{self, Certificates};
use super::{start, with};
use crate::bootstrap::direct_response;
use crate::running::{Running, get};

/// A service with a static endpoint at this address.
fn fixed(service: &str, address: &str) -> Cluster {
    let (host, port) = address.rsplit_once(':').unwrap();
    let endpoint = Endpoint {
        priority: 0,
        zone: "".into(),
        address: host.into(),
        port: port.parse().unwrap(),
        weight: 1,
        tags: Arc::default(),
        ..Endpoint::default()
    };
    let assignment =
        Assignment { cluster: service.into(), endpoints: [endpoint].into(), overprovisioning_factor: None };
    Cluster {
        cluster_discovery_type: Some(ClusterDiscoveryType::Type(DiscoveryType::Static.into())),
        eds_cluster_config: None,
        load_assignment: Some(endpoints::assignment(&assignment)),
        ..outbound::cluster(&inputs::service(service, true))
    }
}

/// With a port chosen by the system.
fn calling(service: &str) -> OutboundListener {
    OutboundListener { cluster: service.into(), ..inputs::outbound(Protocol::Http, 0, true) }
}

#[test]
fn permissive_inbound_accepts_mtls_and_plain_text() {
    let Some(program) = envoy() else { return };
    let made = Certificates::make_for(["backend", "web"]);
    let (backend, web) = (&made[0], &made[1]);
    let folder = tempfile::tempdir().unwrap();

    let workload = Running::start(program, &direct_response("from the workload"));
    workload.wait_until_live();
    let workload_port = workload.listener("inbound").rsplit_once(':').unwrap().1.parse().unwrap();

    let shape = Shape { transparent: false, reuse_port: true, ipv6: false };
    let input = Inbound {
        workload_address: "127.0.0.1".to_owned(),
        workload_port,
        ..inputs::inbound(Protocol::Http, 0, InboundTls::Permissive, shape)
    };
    let mut bootstrap = inputs::bootstrap("127.0.0.1", folder.path(), backend);
    bootstrap.admin = inputs::any_admin();
    let (listener, cluster) = (inbound::listener(&input), inbound::cluster(&input));
    let server = start(program, with(bootstrap.message(), vec![listener], vec![cluster], backend));
    let served_at = server.listener("inbound:127.0.0.1:0");

    let call = |service: &str| {
        let mut bootstrap = inputs::bootstrap("127.0.0.1", folder.path(), web);
        bootstrap.admin = inputs::any_admin();
        let listener = outbound::listener(&calling(service));
        let client = start(program, with(bootstrap.message(), vec![listener], vec![fixed(service, &served_at)], web));
        (get(&client.listener("outbound:127.0.0.1:0"), "/").unwrap(), client.statistics("ssl.fail_verify_san"))
    };

    let plain = get(&served_at, "/").unwrap();
    assert!(plain.starts_with("HTTP/1.1 200 ") && plain.ends_with("from the workload"), "{plain}");
    // The handshake succeeds, and no permission allows the request.
    let (refused, _) = call("backend");
    assert!(refused.starts_with("HTTP/1.1 403 ") && refused.contains("RBAC: access denied"), "{refused}");
    // The server has the wrong identity.
    let (impostor, statistics) = call("payments");
    assert!(impostor.starts_with("HTTP/1.1 503 "), "{impostor}");
    assert!(statistics.contains("cluster.payments.ssl.fail_verify_san: 1\n"), "{statistics}");
}
