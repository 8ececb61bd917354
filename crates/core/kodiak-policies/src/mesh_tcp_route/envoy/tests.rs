//! TCP proxy clusters generated from backends.

use kodiak_envoy::envoy::extensions::filters::network::http_connection_manager::v3::HttpConnectionManager;
use kodiak_envoy::envoy::extensions::filters::network::tcp_proxy::v3::TcpProxy;
use kodiak_envoy::json::{from_json, to_json};
use kodiak_model::policy::Conf;
use kodiak_model::{Protocol, yaml};
use serde_json::{Value, json};

use super::*;
use crate::mesh_tcp_route::Routing;
use crate::samples::FACTS;
use crate::target::{Backend, BackendKey, Backends, Http, Tcp};
use crate::{Confs, Policy};

/// Every service has a cluster of its name. `missing` is not among them.
fn backends() -> Backends {
    let backend = |(name, protocol): (&str, _)| {
        let written = serde_json::from_value(json!({ "kind": "MeshService", "name": name })).unwrap();
        let backend = Backend { cluster: name.into(), protocol, external: false };
        (BackendKey::of(&written).unwrap(), backend)
    };
    let services = [("database", Protocol::Tcp), ("database-v2", Protocol::Tls), ("web", Protocol::Http)];
    Backends(services.into_iter().map(backend).collect())
}

/// The `backendRefs` of a conf, in YAML.
fn conf(refs: &str) -> Conf {
    Conf::new(json!({ "default": { "backendRefs": yaml::parse(refs).unwrap().remove(0).value } }))
}

fn carried(conf: Conf, carrier: Carrier) -> Carrier {
    let backends = backends();
    let mut outbound = Outbound {
        mesh: "default",
        cluster: "database",
        protocol: Protocol::Tcp,
        carrier,
        backends: &backends,
        external: false,
        facts: &FACTS,
    };
    Routing.outbound(&Confs { whole: Some(conf), ..Confs::default() }, &mut outbound);
    outbound.carrier
}

#[track_caller]
fn check_conf(conf: Conf, expected: &str) {
    let proxy = TcpProxy {
        stat_prefix: "database".to_owned(),
        cluster_specifier: Some(ClusterSpecifier::Cluster("database".to_owned())),
        ..TcpProxy::default()
    };
    let Carrier::Tcp(tcp) = carried(conf, Carrier::Tcp(Box::new(Tcp { proxy, filters: Vec::new() }))) else {
        unreachable!("it was TCP");
    };
    let expected: TcpProxy =
        from_json(&yaml::parse(&format!("{{stat_prefix: database, {expected}}}")).unwrap().remove(0).value).unwrap();
    let shown = |proxy| yaml::to_string(&to_json(proxy).unwrap());
    assert_eq!(shown(&tcp.proxy), shown(&expected));
}

#[track_caller]
fn check(refs: &str, expected: &str) {
    check_conf(conf(refs), expected);
}

#[test]
fn weights_split_connections_regardless_of_protocol() {
    check(
        "[{kind: MeshService, name: database, weight: 90}, {kind: MeshService, name: database-v2}, {kind: MeshService, name: web}]",
        "weighted_clusters: {clusters: [{name: database, weight: 90}, {name: database-v2, weight: 1}, {name: web, weight: 1}]}",
    );
}

#[test]
fn single_backend_gets_all_connections() {
    let others = "{kind: MeshService, name: database, weight: 0}, {kind: MeshService, name: missing}";
    check(&format!("[{others}, {{kind: MeshService, name: database-v2}}]"), "cluster: database-v2");
}

#[test]
fn connections_are_closed_without_backends() {
    check("[{kind: MeshService, name: missing}]", "cluster: 'unresolved:missing'");
    // A destination with weight 0 gets no connections either.
    check("[{kind: MeshService, name: database, weight: 0}]", "cluster: 'unresolved:database'");
    check("[{kind: MeshExternalService, labels: {app: db}}]", "cluster: 'unresolved:'");
}

#[test]
fn without_backends_connections_go_to_the_destination_itself() {
    check("[]", "cluster: database");
    // Conf of a policy without rules.
    check_conf(Conf::new(Value::Null), "cluster: database");
}

#[test]
fn backends_are_the_backend_refs() {
    let names = Routing.backends(&conf("[{kind: MeshService, name: a, weight: 0}, {kind: MeshService, name: b}]"));
    assert_eq!(names.into_iter().filter_map(|backend| backend.name).collect::<Vec<_>>(), ["a", "b"]);
}

#[test]
fn http_requests_are_unchanged() {
    let manager = HttpConnectionManager::default();
    let http =
        Carrier::Http(Box::new(Http { manager, routes: Vec::new(), filters: Vec::new(), network_filters: Vec::new() }));
    assert_eq!(carried(conf("[{kind: MeshService, name: database-v2}]"), http.clone()), http);
}
