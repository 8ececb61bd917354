//! Calls from one running proxy to another.

use std::fs;
use std::io::Write as _;
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use kodiak_envoy::envoy::config::cluster::v3::Cluster;
use kodiak_envoy::envoy::config::cluster::v3::cluster::{ClusterDiscoveryType, DiscoveryType};
use kodiak_model::{InboundTls, Protocol};
use kodiak_testkit::envoy::envoy;
use kodiak_xds::input::{Assignment, Endpoint, Inbound, OutboundListener, Shape};
use kodiak_xds::{endpoints, inbound, names, outbound};
use serde_json::{Value, json};

use super::inputs::{self, Certificates};
use super::{start, with};
use crate::bootstrap::direct_response;
use crate::running::{Running, get};

const PATIENCE: Duration = Duration::from_secs(30);

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

#[test]
fn callers_without_mtls_are_logged_while_their_connections_are_open() {
    let Some(program) = envoy() else { return };
    let made = Certificates::make();
    let workload = Running::start(program, &direct_response("from the workload"));
    workload.wait_until_live();
    let workload_port = workload.listener("inbound").rsplit_once(':').unwrap().1.parse().unwrap();
    for protocol in [Protocol::Http, Protocol::Tcp] {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        let input = Inbound {
            workload_address: "127.0.0.1".to_owned(),
            workload_port,
            plaintext_callers: Some(log.to_str().unwrap().into()),
            ..inputs::inbound(
                protocol,
                0,
                InboundTls::Permissive,
                Shape { transparent: false, reuse_port: true, ipv6: false },
            )
        };
        let mut bootstrap = inputs::bootstrap("127.0.0.1", folder.path(), &made);
        bootstrap.admin = inputs::any_admin();
        let (listener, cluster) = (inbound::listener(&input), inbound::cluster(&input));
        let server = start(program, with(bootstrap.message(), vec![listener], vec![cluster], &made));
        let address = server.listener("inbound:127.0.0.1:0");
        let mut open = TcpStream::connect(&address).unwrap();
        write!(open, "GET / HTTP/1.1\r\nHost: {address}\r\n\r\n").unwrap();
        let line = json!({ "address": names::PLAINTEXT_CALLERS, "message": "127.0.0.1 0" });
        assert_eq!(lines(&log, 1), std::slice::from_ref(&line));
        get(&address, "/").unwrap();
        assert_eq!(lines(&log, 2), [line.clone(), line], "{protocol:?}");
    }
}

/// Lines of the log, once there are so many.
fn lines(log: &Path, count: usize) -> Vec<Value> {
    let started = Instant::now();
    loop {
        let text = fs::read_to_string(log).unwrap_or_default();
        if text.lines().count() >= count {
            return text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        }
        assert!(started.elapsed() < PATIENCE, "{text}");
        thread::sleep(Duration::from_millis(20));
    }
}
