//! Faults that the checker reports, and valid resources.

use kodiak_envoy::json::from_json;
use kodiak_model::yaml;

use super::*;
use crate::input::{OutboundCluster, Peer, UpstreamProtocol};

fn listener(text: &str) -> Listener {
    let text = text.replace("TYPE", "\"@type\": type.googleapis.com/envoy.extensions.filters");
    let document = yaml::parse(&text).unwrap().remove(0).value;
    from_json(&document).unwrap()
}

const ADDRESS: &str = "address: {socket_address: {address: 10.0.0.5, port_value: 80}}";
const TCP: &str = "{name: t, typed_config: {TYPE.network.tcp_proxy.v3.TcpProxy, stat_prefix: t, cluster: backend}}";
const RBAC: &str = "{name: r, typed_config: {TYPE.network.rbac.v3.RBAC, stat_prefix: r}}";
const ROUTER: &str = "{name: x, typed_config: {TYPE.http.router.v3.Router}}";
const GRPC_STATS: &str = "{name: g, typed_config: {TYPE.http.grpc_stats.v3.FilterConfig}}";

fn http(filters: &str) -> String {
    let routes = "{route: {weighted_clusters: {clusters: [{name: a, weight: 1}, {name: b, weight: 1}]}}}, \
                  {route: {cluster: a, request_mirror_policies: [{cluster: mirror}]}}, \
                  {direct_response: {status: 200}}";
    format!(
        "{{name: h, typed_config: {{TYPE.network.http_connection_manager.v3.HttpConnectionManager, \
         http_filters: [{filters}], route_config: {{virtual_hosts: [{{name: v, domains: ['*'], routes: [{routes}]}}]}}}}}}"
    )
}

#[test]
fn listener_faults_are_reported() {
    let no_end = "a filter chain does not end with a terminal filter";
    let after_end = "a filter chain has a filter after its terminal filter";
    for (text, faults) in [
        (format!("{{name: x, {ADDRESS}, filter_chains: [{{filters: [{RBAC}, {TCP}]}}]}}"), &[][..]),
        (format!("{{{ADDRESS}, filter_chains: [{{filters: [{TCP}]}}]}}"), &["has no name"]),
        (format!("{{name: x, {ADDRESS}}}"), &["has no filter chain"]),
        (format!("{{name: x, filter_chains: [{{filters: [{TCP}]}}]}}"), &["has no address"]),
        (format!("{{name: x, {ADDRESS}, filter_chains: [{{}}]}}"), &["a filter chain has no filters"]),
        (format!("{{name: x, {ADDRESS}, filter_chains: [{{filters: [{RBAC}]}}]}}"), &[no_end]),
        (format!("{{name: x, {ADDRESS}, filter_chains: [{{filters: [{TCP}, {TCP}]}}]}}"), &[after_end]),
        (
            format!(
                "{{name: x, {ADDRESS}, filter_chains: [{{filters: [{TCP}]}}, {{filter_chain_match: {{}}, filters: [{TCP}]}}]}}"
            ),
            &["filter chain 1 has the same match as an earlier one"],
        ),
        (
            format!(
                "{{name: x, {ADDRESS}, filter_chains: [{{filters: [{}]}}]}}",
                http(&format!("{ROUTER}, {GRPC_STATS}"))
            ),
            &["the last HTTP filter is not the router"],
        ),
        (
            "{name: x, address: {socket_address: {protocol: UDP, address: 127.0.0.1, port_value: 53}}}".to_owned(),
            &["is a UDP listener without a listener filter"],
        ),
    ] {
        assert_eq!(Links::of_listener(&listener(&text)).faults, faults, "{text}");
    }
}

#[test]
fn a_listener_needs_the_clusters_it_routes_to() {
    let text = format!("{{name: x, {ADDRESS}, filter_chains: [{{filters: [{}]}}]}}", http(ROUTER));
    let links = Links::of_listener(&listener(&text));
    let clusters = ["a", "b", "mirror"].map(|name| (TypeUrl::Cluster, Arc::from(name)));
    assert_eq!(links.needs, clusters);
    let faults = dangling(&"x".into(), &links, |kind, name| kind == TypeUrl::Cluster && name != "b");
    let texts: Vec<_> = faults.iter().map(ToString::to_string).collect();
    assert_eq!(texts, [r#"x references cluster "b", which does not exist"#]);
}

#[test]
fn a_listener_needs_the_clusters_of_its_tracer() {
    const CONFIG: &str = "\"@type\": type.googleapis.com/envoy.config.trace.v3";
    for (config, expected) in [
        ("ZipkinConfig, collector_cluster: spans", Some("spans")),
        ("DatadogConfig, collector_cluster: spans", Some("spans")),
        ("OpenTelemetryConfig, grpc_service: {envoy_grpc: {cluster_name: spans}}", Some("spans")),
        ("OpenTelemetryConfig, http_service: {http_uri: {cluster: spans}}", Some("spans")),
        ("OpenTelemetryConfig", None),
    ] {
        let traced = http(ROUTER).replace(
            "http_filters:",
            &format!("tracing: {{provider: {{name: t, typed_config: {{{CONFIG}.{config}}}}}}}, http_filters:"),
        );
        let links =
            Links::of_listener(&listener(&format!("{{name: x, {ADDRESS}, filter_chains: [{{filters: [{traced}]}}]}}")));
        let others = ["a", "b", "mirror"];
        let needed = links.needs.iter().map(|(_, name)| &**name).find(|name| !others.contains(name));
        assert_eq!((needed, links.faults.len()), (expected, 0), "{config}");
    }
}

#[test]
fn undecodable_bytes_are_a_fault() {
    let mut broken = listener(&format!("{{name: x, {ADDRESS}, filter_chains: [{{filters: [{TCP}]}}]}}"));
    let filter = &mut broken.filter_chains[0].filters[0];
    let Some(kodiak_envoy::envoy::config::listener::v3::filter::ConfigType::TypedConfig(any)) = &mut filter.config_type
    else {
        panic!("the filter is written out");
    };
    any.value = vec![0xff].into();
    let expected = ["the bytes are not a valid envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy"];
    assert_eq!(Links::of_listener(&broken).faults, expected);
}

#[test]
fn listeners_cannot_share_an_address_even_unbound() {
    let at = |address: &str| {
        let text = format!("{{name: x, {address}, filter_chains: [{{filters: [{TCP}]}}]}}");
        Links::of_listener(&listener(&text))
    };
    let udp = "{protocol: UDP, address: 10.0.0.5, port_value: 80}";
    let listeners: Vec<(Arc<str>, Links)> = vec![
        ("a".into(), at(ADDRESS)),
        ("b".into(), at("address: {socket_address: {address: 10.0.0.6, port_value: 80}}")),
        ("c".into(), at(&format!("bind_to_port: false, {ADDRESS}"))),
        ("d".into(), at(&format!("address: {{socket_address: {udp}}}"))),
        ("e".into(), at("address: {socket_address: {address: 10.0.0.5, port_value: 0}}")),
        ("f".into(), at("address: {socket_address: {address: 10.0.0.5, port_value: 0}}")),
        ("g".into(), at(ADDRESS)),
        ("h".into(), at("address: {pipe: {path: /tmp/x}}")),
        ("i".into(), at("address: {pipe: {path: /tmp/x}}")),
    ];
    let faults = clashes(listeners.iter().map(|(name, links)| (name, links)));
    let texts: Vec<_> = faults.iter().map(ToString::to_string).collect();
    let tcp = ["c", "g"].map(|name| format!("{name} and a have the same address 10.0.0.5:80"));
    assert_eq!(texts, [&tcp[..], &["i and h have the same address /tmp/x".to_owned()]].concat());
}

#[test]
fn service_cluster_references_endpoints_and_secrets() {
    let outbound = OutboundCluster {
        name: "backend".into(),
        mesh: "default".into(),
        peer: Some(Arc::new(Peer { sni: "backend".to_owned(), ..Peer::default() })),
        upstream: UpstreamProtocol::Proxy,
        confs: Arc::default(),
    };
    let mut cluster = crate::outbound::cluster(&outbound);
    let secrets = [
        (TypeUrl::Secret, Arc::from("identity_cert:secret:default")),
        (TypeUrl::Secret, Arc::from("mesh_ca:secret:default:backend")),
    ];
    let needs = |endpoints: &str| [vec![(TypeUrl::Endpoint, Arc::from(endpoints))], secrets.to_vec()].concat();
    assert_eq!(Links::of_cluster(&cluster).needs, needs("backend"));
    cluster.eds_cluster_config.as_mut().unwrap().service_name = "other".to_owned();
    assert_eq!(Links::of_cluster(&cluster).needs, needs("other"));
    let fixed = crate::clusters::of_one("localhost:80", crate::address::tcp("127.0.0.1", 80));
    assert_eq!(Links::of_cluster(&fixed), Links::default());
}

#[test]
fn clusters_of_access_loggers_are_references() {
    let logger = "{name: l, typed_config: {\"@type\": \
                  type.googleapis.com/envoy.extensions.access_loggers.open_telemetry.v3.OpenTelemetryAccessLogConfig, \
                  grpc_service: {envoy_grpc: {cluster_name: collector}}}}";
    let tcp = format!(
        "{{name: t, typed_config: {{TYPE.network.tcp_proxy.v3.TcpProxy, stat_prefix: t, cluster: backend, \
         access_log: [{logger}]}}}}"
    );
    let links =
        Links::of_listener(&listener(&format!("{{name: x, {ADDRESS}, filter_chains: [{{filters: [{tcp}]}}]}}")));
    let needs: Vec<_> = links.needs.iter().map(|(_, name)| &**name).collect();
    assert_eq!(needs, ["backend", "collector"]);
}
