//! A real Envoy accepts every kind of resource that we build for a proxy.
//!
//! They are static resources of its bootstrap; secrets too, instead of coming from a control plane.

mod calls;
mod inputs;
mod naming;
mod trimmed;

use std::path::Path;
use std::sync::Arc;

use kodiak_envoy::envoy::config::bootstrap::v3::{Bootstrap, bootstrap::StaticResources};
use kodiak_envoy::envoy::config::cluster::v3::Cluster;
use kodiak_envoy::envoy::config::cluster::v3::cluster::{ClusterDiscoveryType, DiscoveryType};
use kodiak_envoy::envoy::config::listener::v3::Listener;
use kodiak_envoy::json::{from_json, to_json};
use kodiak_model::{InboundTls, Protocol};
use kodiak_testkit::envoy::envoy;
use kodiak_xds::bootstrap::to_yaml;
use kodiak_xds::check::{Links, clashes};
use kodiak_xds::input::{DnsListener, OutsideTraffic, Passthrough, Shape};
use kodiak_xds::trimmed::Client;
use kodiak_xds::{admin, dns, dynamic_config, endpoints, inbound, names, outbound, passthrough, probes, secrets};
use serde_json::Value;

use crate::running::Running;
use inputs::Certificates;

const PROTOCOLS: &[Protocol] =
    &[Protocol::Grpc, Protocol::Http, Protocol::Http2, Protocol::Kafka, Protocol::Mysql, Protocol::Tcp, Protocol::Tls];

#[track_caller]
fn assert_accepted(program: &Path, bootstrap: &Bootstrap) {
    let output = crate::validate(program, bootstrap);
    assert!(output.status.success(), "{}\n{}", String::from_utf8_lossy(&output.stderr), to_yaml(bootstrap));
}

/// Bootstrap with these static resources, and the secrets of the mesh.
fn with(mut bootstrap: Bootstrap, listeners: Vec<Listener>, clusters: Vec<Cluster>, made: &Certificates) -> Bootstrap {
    let resources = bootstrap.static_resources.get_or_insert_default();
    let StaticResources { listeners: all_listeners, clusters: all_clusters, secrets: all_secrets } = resources;
    all_listeners.extend(listeners);
    let services = clusters.iter().map(|cluster| inputs::servers(&cluster.name, made));
    let validations = services.chain([inputs::callers(made)]);
    all_secrets.extend(validations.map(|validation| secrets::validation(&validation)));
    all_clusters.extend(clusters);
    all_secrets.push(secrets::identity("default", &made.identity()));
    let mut json = to_json(&bootstrap).unwrap();
    take_secrets_from_bootstrap(&mut json);
    from_json(&json).unwrap()
}

/// Without a control plane, which Envoy would wait for.
fn start(program: &Path, mut bootstrap: Bootstrap) -> Running {
    bootstrap.dynamic_resources = None;
    let running = Running::start(program, &bootstrap);
    running.wait_until_live();
    running
}

/// A secret without a source is one of the bootstrap.
fn take_secrets_from_bootstrap(json: &mut Value) {
    match json {
        Value::Object(object) => {
            object.remove("sdsConfig");
            object.values_mut().for_each(take_secrets_from_bootstrap);
        }
        Value::Array(items) => items.iter_mut().for_each(take_secrets_from_bootstrap),
        _ => (),
    }
}

#[test]
fn bootstrap_is_accepted_for_each_control_plane() {
    let Some(program) = envoy() else { return };
    let made = Certificates::make();
    for host in ["cp.example.com", "127.0.0.1", "::1"] {
        let folder = tempfile::tempdir().unwrap();
        assert_accepted(program, &inputs::bootstrap(host, folder.path(), &made).message());
    }
}

#[test]
fn inbounds_of_each_protocol_are_accepted() {
    let Some(program) = envoy() else { return };
    let made = Certificates::make();
    for (accept, shape) in [
        (InboundTls::Plaintext, Shape { transparent: false, reuse_port: false, ipv6: false }),
        (InboundTls::Permissive, Shape { transparent: true, reuse_port: true, ipv6: true }),
        (InboundTls::Strict, Shape { transparent: true, reuse_port: true, ipv6: false }),
    ] {
        let inbounds: Vec<_> = PROTOCOLS
            .iter()
            .zip(8000..)
            .map(|(protocol, port)| inputs::inbound(*protocol, port, accept, shape))
            .collect();
        let listeners = inbounds.iter().map(inbound::listener).collect();
        let clusters = inbounds.iter().map(inbound::cluster).collect();
        let folder = tempfile::tempdir().unwrap();
        let base = inputs::bootstrap("127.0.0.1", folder.path(), &made).message();
        assert_accepted(program, &with(base, listeners, clusters, &made));
    }
}

#[test]
fn outbounds_of_each_protocol_are_accepted() {
    let Some(program) = envoy() else { return };
    let made = Certificates::make();
    for bind in [true, false] {
        let outbounds = PROTOCOLS.iter().zip(9000..).map(|(protocol, port)| inputs::outbound(*protocol, port, bind));
        let listeners = outbounds.map(|input| outbound::listener(&input)).collect();
        let mut fixed = outbound::cluster(&inputs::service("fixed", false));
        fixed.cluster_discovery_type = Some(ClusterDiscoveryType::Type(DiscoveryType::Static.into()));
        fixed.eds_cluster_config = None;
        fixed.load_assignment = Some(endpoints::assignment(&inputs::assignment("fixed")));
        let clusters = vec![outbound::cluster(&inputs::service("backend", true)), fixed];
        let folder = tempfile::tempdir().unwrap();
        let base = inputs::bootstrap("127.0.0.1", folder.path(), &made).message();
        assert_accepted(program, &with(base, listeners, clusters, &made));
    }
}

#[test]
fn own_listeners_of_the_proxy_are_accepted() {
    let Some(program) = envoy() else { return };
    let made = Certificates::make();
    let matched = OutsideTraffic::Matched(inputs::outside_matches());
    for (inbound_ports, outside) in [
        (None, OutsideTraffic::Allowed),
        (Some(vec![8080, 9090]), OutsideTraffic::RefusedByPolicy),
        (Some(vec![]), OutsideTraffic::RefusedByMesh),
        (None, matched),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let bootstrap = inputs::bootstrap("127.0.0.1", folder.path(), &made);
        let through = Passthrough {
            inbound_port: 15006,
            outbound_port: 15001,
            ipv6: true,
            reuse_port: true,
            outside,
            inbound_ports,
            trimmed: Some(Client {
                name: "web-1".into(),
                ranges: ["240.0.0.0/4", "10.7.0.0/16"].map(|range| range.parse().unwrap()).into(),
            }),
            mesh: "default".into(),
            confs: Arc::default(),
            facts: Arc::default(),
        };
        let admin = inputs::admin(bootstrap.admin.clone(), &made);
        let socket = names::dynamic_config_socket(folder.path().to_str().unwrap());
        let mut listeners = passthrough::listeners(&through);
        listeners.extend(admin::listener(&admin));
        listeners.push(dynamic_config::listener(&inputs::dynamic_config(socket)));
        listeners.push(dns::listener(&DnsListener { table: inputs::dns_table(), port: 15054 }));
        listeners.push(probes::listener(&inputs::probes()));
        let mut clusters = passthrough::clusters(&through);
        clusters.extend(admin::clusters(&admin));
        let base = bootstrap.message();
        assert_accepted(program, &with(base, listeners, clusters, &made));
    }
}

#[test]
fn envoy_rejects_what_the_checker_rejects() {
    let Some(program) = envoy() else { return };
    let made = Certificates::make();
    let refused = |listeners: Vec<Listener>| {
        let links: Vec<_> =
            listeners.iter().map(|listener| (listener.name.as_str().into(), Links::of_listener(listener))).collect();
        let own = links.iter().any(|(_, links)| !links.faults.is_empty());
        let clash = !clashes(links.iter().map(|(name, links)| (name, links))).is_empty();
        let folder = tempfile::tempdir().unwrap();
        let base = inputs::bootstrap("127.0.0.1", folder.path(), &made).message();
        let output = crate::validate(program, &with(base, listeners, vec![], &made));
        (own || clash, !output.status.success())
    };
    let one = || outbound::listener(&inputs::outbound(Protocol::Tcp, 9000, true));
    let unbound = |listener| Listener { bind_to_port: Some(false), ..listener };
    let twin = || Listener { name: "twin".to_owned(), ..one() };
    let mut two_chains = one();
    two_chains.filter_chains.push(two_chains.filter_chains[0].clone());
    let mut two_ends = one();
    let end = two_ends.filter_chains[0].filters[0].clone();
    two_ends.filter_chains[0].filters.push(end);
    let chainless = Listener { filter_chains: vec![], ..one() };
    for (what, listeners, expected) in [
        ("nothing", vec![one()], (false, false)),
        ("one address", vec![one(), twin()], (true, true)),
        ("one address, not bound", vec![unbound(one()), unbound(twin())], (true, true)),
        ("one match", vec![two_chains], (true, true)),
        ("two terminal filters", vec![two_ends], (true, true)),
        ("no chain", vec![chainless], (true, true)),
    ] {
        assert_eq!(refused(listeners), expected, "{what}");
    }
}
