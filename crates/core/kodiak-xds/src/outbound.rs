//! Outbounds: where a workload calls a service, and the service as it is called.

use kodiak_envoy::envoy::config::cluster::v3::Cluster;
use kodiak_envoy::envoy::config::cluster::v3::cluster::{DiscoveryType, EdsClusterConfig};
use kodiak_envoy::envoy::config::core::v3::TrafficDirection;
use kodiak_envoy::envoy::config::listener::v3::{Filter, FilterChain, Listener};
use kodiak_envoy::envoy::extensions::filters::network::http_connection_manager::v3::HttpConnectionManager;
use kodiak_model::Protocol;

use crate::clusters::{self, Http};
use crate::input::{OutboundCluster, OutboundListener};
use crate::{address, filters, metadata, names, routes, tls};

pub fn listener(outbound: &OutboundListener) -> Listener {
    Listener {
        name: names::outbound_listener(&outbound.address, outbound.port),
        address: Some(address::tcp(&outbound.address, outbound.port)),
        traffic_direction: TrafficDirection::Outbound.into(),
        bind_to_port: (!outbound.bind).then_some(false),
        metadata: Some(metadata::under(&[names::TAGS_METADATA], &outbound.tags)),
        filter_chains: vec![FilterChain { filters: vec![filter(outbound)], ..FilterChain::default() }],
        ..Listener::default()
    }
}

/// Between proxies everything that is HTTP is HTTP/2, whatever the workloads speak. TCP does not look at it.
pub fn cluster(outbound: &OutboundCluster) -> Cluster {
    Cluster {
        eds_cluster_config: Some(EdsClusterConfig { eds_config: Some(tls::over_ads()), ..EdsClusterConfig::default() }),
        typed_extension_protocol_options: [clusters::http_to_service(Http::Two)].into(),
        transport_socket: outbound.mtls.then(|| tls::socket(&tls::upstream(outbound))),
        ..clusters::cluster(&outbound.name, DiscoveryType::Eds)
    }
}

/// Kafka is carried as TCP: Envoy as it is given out has no filter for it.
fn filter(outbound: &OutboundListener) -> Filter {
    match outbound.protocol {
        Protocol::Http | Protocol::Http2 | Protocol::Grpc => filters::http_filter(&http(outbound)),
        Protocol::Kafka | Protocol::Mysql | Protocol::Tcp | Protocol::Tls => {
            filters::service_tcp_proxy(names::service(&outbound.tags), &outbound.cluster)
        }
    }
}

fn http(outbound: &OutboundListener) -> HttpConnectionManager {
    let service = names::service(&outbound.tags);
    let route = routes::catch_all(names::CATCH_ALL_ROUTE, &outbound.cluster);
    let routes = routes::all_domains(names::outbound_routes(service), service, vec![route]);
    let grpc = (outbound.protocol == Protocol::Grpc).then(filters::grpc_stats);
    HttpConnectionManager {
        // Routes match paths, so `/a/../b` must mean `/b` before they do.
        normalize_path: Some(true),
        http_filters: grpc.into_iter().chain([filters::router()]).collect(),
        ..filters::http(service, outbound.shape.ipv6, routes)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::Value;

    use super::*;
    use crate::input::Shape;
    use crate::testing::{at, check, tags};

    fn outbound(protocol: Protocol, bind: bool) -> OutboundListener {
        OutboundListener {
            address: "240.0.0.1".to_owned(),
            port: 80,
            tags: Arc::new(tags(&[("kuma.io/service", "backend")])),
            cluster: "backend".into(),
            protocol,
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
