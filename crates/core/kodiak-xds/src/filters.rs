//! Filters of the generated listeners.

use std::time::Duration;

use kodiak_envoy::envoy::config::core::v3::HttpProtocolOptions;
use kodiak_envoy::envoy::config::listener::v3::{Filter, ListenerFilter, filter, listener_filter};
use kodiak_envoy::envoy::config::route::v3::RouteConfiguration;
use kodiak_envoy::envoy::extensions::filters::http::{grpc_stats::v3::FilterConfig, router::v3::Router};
use kodiak_envoy::envoy::extensions::filters::listener::tls_inspector::v3::TlsInspector;
use kodiak_envoy::envoy::extensions::filters::network::http_connection_manager::v3::http_connection_manager::{
    InternalAddressConfig, RouteSpecifier,
};
use kodiak_envoy::envoy::extensions::filters::network::http_connection_manager::v3::{
    HttpConnectionManager, HttpFilter, http_filter,
};
use kodiak_envoy::envoy::extensions::filters::network::tcp_proxy::v3::{TcpProxy, tcp_proxy::ClusterSpecifier};
use kodiak_envoy::{TypeUrl, any, duration};

use crate::address::{LOOPBACK, range};
use crate::names;

pub(crate) const HTTP_CONNECTION_MANAGER: &str = "envoy.filters.network.http_connection_manager";
pub(crate) const ROUTER: &str = "envoy.filters.http.router";

/// Private address ranges: Envoy trusts the `x-envoy-` headers of callers in them.
const INTERNAL: &[(&str, u32)] = &[
    ("10.0.0.0", 8),
    ("192.168.0.0", 16),
    ("172.16.0.0", 12),
    ("fc00::", 7),
    ("fd00::", 8),
    (LOOPBACK, 32),
    ("::1", 128),
];

/// HTTP connection manager with the default timeouts of a mesh without MeshTimeout. Callers add filters, and the router
/// last.
pub(crate) fn http(name: &str, ipv6: bool, routes: RouteConfiguration) -> HttpConnectionManager {
    let ranges = INTERNAL.iter().filter(|(address, _)| ipv6 || !address.contains(':'));
    HttpConnectionManager {
        common_http_protocol_options: Some(HttpProtocolOptions {
            idle_timeout: Some(duration(Duration::ZERO)),
            ..HttpProtocolOptions::default()
        }),
        request_headers_timeout: Some(duration(Duration::ZERO)),
        internal_address_config: Some(InternalAddressConfig {
            cidr_ranges: ranges.map(|(address, length)| range(address, *length)).collect(),
            ..InternalAddressConfig::default()
        }),
        ..plain_http(name, routes)
    }
}

/// HTTP connection manager for the proxy's own endpoints: Envoy's default timeouts, and only loopback is internal.
pub(crate) fn own_http(name: &str, routes: RouteConfiguration) -> HttpConnectionManager {
    HttpConnectionManager {
        internal_address_config: Some(InternalAddressConfig {
            cidr_ranges: vec![range(LOOPBACK, 32)],
            ..InternalAddressConfig::default()
        }),
        http_filters: vec![router()],
        ..plain_http(name, routes)
    }
}

fn plain_http(name: &str, routes: RouteConfiguration) -> HttpConnectionManager {
    HttpConnectionManager {
        stat_prefix: names::stat_name(name),
        route_specifier: Some(RouteSpecifier::RouteConfig(routes)),
        ..HttpConnectionManager::default()
    }
}

pub(crate) fn http_filter(manager: &HttpConnectionManager) -> Filter {
    network(HTTP_CONNECTION_MANAGER, manager)
}

/// `idle` is `None` for connections outside the mesh.
pub(crate) fn tcp_proxy(name: &str, cluster: &str, idle: Option<Duration>) -> TcpProxy {
    TcpProxy {
        stat_prefix: names::stat_name(name),
        cluster_specifier: Some(ClusterSpecifier::Cluster(cluster.to_owned())),
        idle_timeout: idle.map(duration),
        ..TcpProxy::default()
    }
}

pub(crate) fn tcp_filter(proxy: &TcpProxy) -> Filter {
    network("envoy.filters.network.tcp_proxy", proxy)
}

/// Must be the last HTTP filter.
pub(crate) fn router() -> HttpFilter {
    http_extension(ROUTER, &Router::default())
}

/// Counts requests by gRPC status.
pub(crate) fn grpc_stats() -> HttpFilter {
    let config = FilterConfig { emit_filter_state: true, ..FilterConfig::default() };
    http_extension("envoy.filters.http.grpc_stats", &config)
}

/// Detects TLS, and reads SNI and ALPN.
pub(crate) fn tls_inspector() -> ListenerFilter {
    listener_filter("envoy.filters.listener.tls_inspector", &TlsInspector::default())
}

pub(crate) fn listener_filter<M: TypeUrl>(name: &str, config: &M) -> ListenerFilter {
    ListenerFilter {
        name: name.to_owned(),
        config_type: Some(listener_filter::ConfigType::TypedConfig(any(config))),
        ..ListenerFilter::default()
    }
}

fn network<M: TypeUrl>(name: &str, config: &M) -> Filter {
    Filter { name: name.to_owned(), config_type: Some(filter::ConfigType::TypedConfig(any(config))) }
}

fn http_extension<M: TypeUrl>(name: &str, config: &M) -> HttpFilter {
    HttpFilter {
        name: name.to_owned(),
        config_type: Some(http_filter::ConfigType::TypedConfig(any(config))),
        ..HttpFilter::default()
    }
}
