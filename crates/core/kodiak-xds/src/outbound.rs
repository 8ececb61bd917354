//! Outbounds: where a workload calls a service, and the service as it is called.

use kodiak_envoy::envoy::config::cluster::v3::Cluster;
use kodiak_envoy::envoy::config::cluster::v3::cluster::{DiscoveryType, EdsClusterConfig};
use kodiak_envoy::envoy::config::core::v3::TrafficDirection;
use kodiak_envoy::envoy::config::listener::v3::{FilterChain, Listener};
use kodiak_envoy::envoy::extensions::filters::network::http_connection_manager::v3::HttpConnectionManager;
use kodiak_policies::target::{self, Carrier, Upstream};

use crate::clusters::{self, Http};
use crate::input::{Carried, OutboundCluster, OutboundListener};
use crate::{address, carrier, filters, metadata, names, routes, tls};

pub fn listener(outbound: &OutboundListener) -> Listener {
    let mut made = target::Outbound {
        mesh: &outbound.mesh,
        cluster: &outbound.cluster,
        protocol: outbound.protocol,
        carrier: carrier(outbound),
        backends: &outbound.backends,
    };
    for policy in kodiak_policies::in_force() {
        if let Some(confs) = outbound.confs.get(policy.kind().name) {
            policy.outbound(confs, &mut made);
        }
    }
    Listener {
        name: names::outbound_listener(&outbound.address, outbound.port),
        address: Some(address::tcp(&outbound.address, outbound.port)),
        traffic_direction: TrafficDirection::Outbound.into(),
        bind_to_port: (!outbound.bind).then_some(false),
        metadata: Some(metadata::under(&[names::TAGS_METADATA], &outbound.tags)),
        filter_chains: vec![FilterChain { filters: carrier::seal(made.carrier), ..FilterChain::default() }],
        ..Listener::default()
    }
}

/// Between proxies everything that is HTTP is HTTP/2, whatever the workloads speak. TCP does not look at it.
pub fn cluster(outbound: &OutboundCluster) -> Cluster {
    let cluster = Cluster {
        eds_cluster_config: Some(EdsClusterConfig { eds_config: Some(tls::over_ads()), ..EdsClusterConfig::default() }),
        transport_socket: outbound.mtls.then(|| tls::socket(&tls::upstream(outbound))),
        ..clusters::cluster(&outbound.name, DiscoveryType::Eds)
    };
    let mut made = Upstream { cluster, http: Some(clusters::http_to_service(Http::Two)) };
    for policy in kodiak_policies::in_force() {
        if let Some(conf) = outbound.confs.get(policy.kind().name) {
            policy.cluster(conf, &mut made);
        }
    }
    clusters::seal(made)
}

/// Kafka is carried as TCP: Envoy as it is given out has no filter for it.
fn carrier(outbound: &OutboundListener) -> Carrier {
    let service = names::service(&outbound.tags);
    match outbound.carried {
        Carried::Tcp => carrier::tcp(service, &outbound.cluster),
        Carried::Http => {
            let manager = HttpConnectionManager {
                // Routes match paths, so `/a/../b` must mean `/b` before they do.
                normalize_path: Some(true),
                ..filters::http(
                    service,
                    outbound.shape.ipv6,
                    routes::all_domains(names::outbound_routes(service), service, Vec::new()),
                )
            };
            let route = routes::catch_all(names::CATCH_ALL_ROUTE, &outbound.cluster);
            carrier::http(manager, vec![route], outbound.protocol)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use kodiak_model::Protocol;
    use serde_json::Value;

    use super::*;
    use crate::input::Shape;
    use crate::testing::{at, check, tags};

    fn outbound(protocol: Protocol, bind: bool) -> OutboundListener {
        OutboundListener {
            address: "240.0.0.1".to_owned(),
            port: 80,
            tags: Arc::new(tags(&[("kuma.io/service", "backend")])),
            mesh: "default".into(),
            cluster: "backend".into(),
            protocol,
            carried: Carried::by(protocol),
            confs: Arc::default(),
            backends: Arc::default(),
            bind,
            shape: Shape { transparent: !bind, reuse_port: true, ipv6: false },
        }
    }

    #[test]
    fn http_has_routes_inside_the_listener() {
        check(
            &listener(&outbound(Protocol::Http, false)),
            r#"
            name: outbound:240.0.0.1:80
            traffic_direction: OUTBOUND
            bind_to_port: false
            address: {socket_address: {address: 240.0.0.1, port_value: 80}}
            metadata: {filter_metadata: {io.kuma.tags: {kuma.io/service: backend}}}
            filter_chains:
            - filters:
              - name: envoy.filters.network.http_connection_manager
                typed_config:
                  "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
                  stat_prefix: backend
                  normalize_path: true
                  internal_address_config:
                    cidr_ranges:
                    - {address_prefix: 10.0.0.0, prefix_len: 8}
                    - {address_prefix: 192.168.0.0, prefix_len: 16}
                    - {address_prefix: 172.16.0.0, prefix_len: 12}
                    - {address_prefix: 127.0.0.1, prefix_len: 32}
                  common_http_protocol_options: {idle_timeout: 0s}
                  request_headers_timeout: 0s
                  http_filters:
                  - name: envoy.filters.http.router
                    typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router}
                  route_config:
                    name: outbound:backend
                    validate_clusters: false
                    virtual_hosts:
                    - name: backend
                      domains: ["*"]
                      routes:
                      - name: 9Zuf5Tg79OuZcQITwBbQykxAk2u4fRKrwYn3//AL4Yo=
                        match: {prefix: /}
                        route: {cluster: backend, timeout: 15s, idle_timeout: 1800s}
            "#,
        );
    }

    #[test]
    fn everything_else_is_tcp() {
        for protocol in [Protocol::Tcp, Protocol::Kafka, Protocol::Tls, Protocol::Mysql] {
            let listener = listener(&outbound(protocol, true));
            assert_eq!(listener.bind_to_port, None);
            let filters = at(&listener, "/filterChains/0/filters");
            assert_eq!(filters.as_array().unwrap().len(), 1);
            assert_eq!(filters[0]["name"], "envoy.filters.network.tcp_proxy");
            assert_eq!(filters[0]["typedConfig"]["cluster"], "backend");
            assert_eq!(filters[0]["typedConfig"]["idleTimeout"], "3600s");
        }
    }

    #[test]
    fn grpc_is_counted_by_status() {
        let listener = listener(&outbound(Protocol::Grpc, false));
        let filter = at(&listener, "/filterChains/0/filters/0/typedConfig/httpFilters/0");
        assert_eq!(filter["name"], "envoy.filters.http.grpc_stats");
        assert_eq!(filter["typedConfig"]["emitFilterState"], true);
    }

    #[test]
    fn a_service_gets_its_endpoints_over_ads_and_tls_only_in_a_mesh_that_has_it() {
        let outbound = |mtls| OutboundCluster {
            name: "backend".into(),
            mesh: "default".into(),
            tags: Arc::new(tags(&[("kuma.io/service", "backend")])),
            mtls,
            confs: Arc::default(),
        };
        check(
            &cluster(&outbound(false)),
            r#"
            name: backend
            type: EDS
            eds_cluster_config: {eds_config: {ads: {}, resource_api_version: V3}}
            connect_timeout: 5s
            circuit_breakers: {thresholds: [{track_remaining: true}]}
            typed_extension_protocol_options:
              envoy.extensions.upstreams.http.v3.HttpProtocolOptions:
                "@type": type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions
                common_http_protocol_options: {idle_timeout: 3600s, max_connection_duration: 0s, max_stream_duration: 0s}
                explicit_http_config: {http2_protocol_options: {}}
            "#,
        );
        let with_tls = cluster(&outbound(true));
        assert_eq!(at(&with_tls, "/transportSocket/typedConfig/sni"), "backend{mesh=default}");
        assert_eq!(at(&cluster(&outbound(false)), "/transportSocket"), Value::Null);
    }
}
