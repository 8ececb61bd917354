//! References and violations in a listener: filter chains, filters, routes.

use std::collections::BTreeSet;

use kodiak_envoy::envoy::config::accesslog::v3::{AccessLog, access_log};
use kodiak_envoy::envoy::config::core::v3::socket_address::{PortSpecifier, Protocol};
use kodiak_envoy::envoy::config::core::v3::{
    SocketAddress, address::Address, grpc_service, http_uri::HttpUpstreamType,
};
use kodiak_envoy::envoy::config::listener::v3::{Filter, FilterChain, Listener, filter};
use kodiak_envoy::envoy::config::route::v3::{RouteAction, RouteConfiguration, route, route_action};
use kodiak_envoy::envoy::config::trace::v3::{DatadogConfig, OpenTelemetryConfig, ZipkinConfig, tracing};
use kodiak_envoy::envoy::extensions::access_loggers::open_telemetry::v3::OpenTelemetryAccessLogConfig;
use kodiak_envoy::envoy::extensions::filters::http::router::v3::Router;
use kodiak_envoy::envoy::extensions::filters::network::http_connection_manager::v3::http_connection_manager::RouteSpecifier;
use kodiak_envoy::envoy::extensions::filters::network::http_connection_manager::v3::{
    HttpConnectionManager, http_filter,
};
use kodiak_envoy::envoy::extensions::filters::network::tcp_proxy::v3::{TcpProxy, tcp_proxy};
use kodiak_envoy::envoy::extensions::filters::network::{
    direct_response::v3::Config as DirectResponse, local_ratelimit::v3::LocalRateLimit, rbac::v3::Rbac,
    set_filter_state::v3::Config as SetFilterState,
};
use kodiak_envoy::google::protobuf::Any;
use kodiak_envoy::{TypeUrl as _, unpack};
use kodiak_xds_stream::TypeUrl;
use prost::Message as _;

use super::{Links, is_over_ads, tls};
use crate::names;

/// Terminal network filters: no filter may follow them. Types in neither list are not checked.
const TERMINAL: &[&str] = &[HttpConnectionManager::TYPE_URL, TcpProxy::TYPE_URL, DirectResponse::TYPE_URL];
/// Network filters that must be followed by another filter.
const NOT_TERMINAL: &[&str] = &[Rbac::TYPE_URL, LocalRateLimit::TYPE_URL, SetFilterState::TYPE_URL];

pub(super) fn collect(listener: &Listener, links: &mut Links) {
    let address = listener.address.as_ref().and_then(|address| address.address.as_ref());
    if address.is_none() {
        links.fault("has no address".to_owned());
    }
    links.binds = address.and_then(occupied);
    let is_udp = matches!(address, Some(Address::SocketAddress(socket)) if socket.protocol() == Protocol::Udp);
    let chains: Vec<_> = listener.filter_chains.iter().chain(&listener.default_filter_chain).collect();
    if is_udp && listener.listener_filters.is_empty() {
        links.fault("is a UDP listener without a listener filter".to_owned());
    }
    if !is_udp && chains.is_empty() {
        links.fault("has no filter chain".to_owned());
    }
    for chain in chains {
        collect_chain(chain, links);
    }
    collect_loggers(&listener.access_log, links);
    find_equal_matches(&listener.filter_chains, links);
}

/// `None` for an ephemeral port.
fn occupied(address: &Address) -> Option<String> {
    match address {
        Address::SocketAddress(socket) => {
            let SocketAddress { address, port_specifier, .. } = socket;
            let Some(PortSpecifier::PortValue(port)) = port_specifier else { return None };
            let udp = if socket.protocol() == Protocol::Udp { "/udp" } else { "" };
            (*port != 0).then(|| format!("{}{udp}", names::host_port(address, *port)))
        }
        Address::Pipe(pipe) => Some(pipe.path.clone()),
        Address::EnvoyInternalAddress(_) => None,
    }
}

/// Envoy rejects a listener with equal filter chain matches.
fn find_equal_matches(chains: &[FilterChain], links: &mut Links) {
    let mut seen = BTreeSet::new();
    for (n, chain) in chains.iter().enumerate() {
        let matched = chain.filter_chain_match.clone().unwrap_or_default();
        if !seen.insert(matched.encode_to_vec()) {
            links.fault(format!("filter chain {n} has the same match as an earlier one"));
        }
    }
}

fn collect_chain(chain: &FilterChain, links: &mut Links) {
    if let Some(socket) = &chain.transport_socket {
        tls::downstream(socket, links);
    }
    check_end(&chain.filters, links);
    for any in chain.filters.iter().filter_map(config) {
        let collected = match any.type_url.as_str() {
            HttpConnectionManager::TYPE_URL => unpack(any).map(|manager| collect_http(&manager, links)),
            TcpProxy::TYPE_URL => unpack(any).map(|proxy| collect_tcp(&proxy, links)),
            _ => Ok(()),
        };
        if let Err(error) = collected {
            links.fault(error.to_string());
        }
    }
}

fn check_end(filters: &[Filter], links: &mut Links) {
    let is_in =
        |filter: &Filter, list: &[&str]| config(filter).is_some_and(|any| list.contains(&any.type_url.as_str()));
    let Some((last, before)) = filters.split_last() else {
        return links.fault("a filter chain has no filters".to_owned());
    };
    if is_in(last, NOT_TERMINAL) {
        links.fault("a filter chain does not end with a terminal filter".to_owned());
    }
    if before.iter().any(|filter| is_in(filter, TERMINAL)) {
        links.fault("a filter chain has a filter after its terminal filter".to_owned());
    }
}

fn config(filter: &Filter) -> Option<&Any> {
    match &filter.config_type {
        Some(filter::ConfigType::TypedConfig(any)) => Some(any),
        Some(filter::ConfigType::ConfigDiscovery(_)) | None => None,
    }
}

/// Envoy rejects a listener whose logger sends to a cluster that does not exist.
fn collect_loggers(loggers: &[AccessLog], links: &mut Links) {
    for logger in loggers {
        let Some(access_log::ConfigType::TypedConfig(any)) = &logger.config_type else { continue };
        if any.type_url != OpenTelemetryAccessLogConfig::TYPE_URL {
            continue;
        }
        match unpack::<OpenTelemetryAccessLogConfig>(any) {
            Ok(config) => {
                let target = config.grpc_service.and_then(|service| service.target_specifier);
                if let Some(grpc_service::TargetSpecifier::EnvoyGrpc(grpc)) = target {
                    links.need(TypeUrl::Cluster, &grpc.cluster_name);
                }
            }
            Err(error) => links.fault(error.to_string()),
        }
    }
}

fn collect_tcp(proxy: &TcpProxy, links: &mut Links) {
    collect_loggers(&proxy.access_log, links);
    match &proxy.cluster_specifier {
        Some(tcp_proxy::ClusterSpecifier::Cluster(cluster)) => links.need(TypeUrl::Cluster, cluster),
        Some(tcp_proxy::ClusterSpecifier::WeightedClusters(weighted)) => {
            weighted.clusters.iter().for_each(|cluster| links.need(TypeUrl::Cluster, &cluster.name));
        }
        None => links.fault("a TCP proxy has no cluster".to_owned()),
    }
}

fn collect_http(manager: &HttpConnectionManager, links: &mut Links) {
    collect_loggers(&manager.access_log, links);
    let is_router = |config: &http_filter::ConfigType| match config {
        http_filter::ConfigType::TypedConfig(any) => any.type_url == Router::TYPE_URL,
        http_filter::ConfigType::ConfigDiscovery(_) => false,
    };
    if !manager.http_filters.last().and_then(|last| last.config_type.as_ref()).is_some_and(is_router) {
        links.fault("the last HTTP filter is not the router".to_owned());
    }
    if let Some(provider) = manager.tracing.as_ref().and_then(|tracing| tracing.provider.as_ref()) {
        collect_tracer(provider, links);
    }
    match &manager.route_specifier {
        Some(RouteSpecifier::RouteConfig(routes)) => collect_routes(routes, links),
        Some(RouteSpecifier::Rds(rds)) if is_over_ads(rds.config_source.as_ref()) => {
            links.need(TypeUrl::Route, &rds.route_config_name);
        }
        Some(RouteSpecifier::Rds(_) | RouteSpecifier::ScopedRoutes(_)) => (),
        None => links.fault("an HTTP connection manager has no routes".to_owned()),
    }
}

/// Envoy rejects a listener with a tracer whose cluster does not exist.
fn collect_tracer(provider: &tracing::Http, links: &mut Links) {
    let Some(tracing::http::ConfigType::TypedConfig(any)) = &provider.config_type else {
        return links.fault(format!("tracer {} has no configuration", provider.name));
    };
    let cluster = match any.type_url.as_str() {
        ZipkinConfig::TYPE_URL => unpack(any).map(|config: ZipkinConfig| Some(config.collector_cluster)),
        DatadogConfig::TYPE_URL => unpack(any).map(|config: DatadogConfig| Some(config.collector_cluster)),
        OpenTelemetryConfig::TYPE_URL => unpack(any).map(|config| cluster_of_spans(&config)),
        _ => Ok(None),
    };
    match cluster {
        Ok(Some(cluster)) => links.need(TypeUrl::Cluster, &cluster),
        Ok(None) => (),
        Err(error) => links.fault(error.to_string()),
    }
}

fn cluster_of_spans(config: &OpenTelemetryConfig) -> Option<String> {
    let over_http = || match config.http_service.as_ref()?.http_uri.as_ref()?.http_upstream_type.as_ref()? {
        HttpUpstreamType::Cluster(cluster) => Some(cluster.clone()),
    };
    match config.grpc_service.as_ref().and_then(|service| service.target_specifier.as_ref()) {
        Some(grpc_service::TargetSpecifier::EnvoyGrpc(service)) => Some(service.cluster_name.clone()),
        Some(grpc_service::TargetSpecifier::GoogleGrpc(_)) => None,
        None => over_http(),
    }
}

fn collect_routes(routes: &RouteConfiguration, links: &mut Links) {
    for route in routes.virtual_hosts.iter().flat_map(|host| &host.routes) {
        if let Some(route::Action::Route(action)) = &route.action {
            collect_action(action, links);
        }
    }
}

fn collect_action(action: &RouteAction, links: &mut Links) {
    match &action.cluster_specifier {
        Some(route_action::ClusterSpecifier::Cluster(cluster)) => links.need(TypeUrl::Cluster, cluster),
        Some(route_action::ClusterSpecifier::WeightedClusters(weighted)) => {
            let named = weighted.clusters.iter().filter(|cluster| !cluster.name.is_empty());
            named.for_each(|cluster| links.need(TypeUrl::Cluster, &cluster.name));
        }
        // The cluster is chosen for each request.
        _ => (),
    }
    let mirrors = action.request_mirror_policies.iter().filter(|mirror| !mirror.cluster.is_empty());
    mirrors.for_each(|mirror| links.need(TypeUrl::Cluster, &mirror.cluster));
}
