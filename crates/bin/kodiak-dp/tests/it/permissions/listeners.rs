//! An Envoy with two inbounds for each set of permissions, as a mesh with mutual TLS has them.

use std::time::Duration;

use kodiak_envoy::envoy::config::bootstrap::v3::bootstrap::StaticResources;
use kodiak_envoy::envoy::config::bootstrap::v3::{Admin, Bootstrap};
use kodiak_envoy::envoy::config::cluster::v3::Cluster;
use kodiak_envoy::envoy::config::cluster::v3::cluster::{ClusterDiscoveryType, DiscoveryType};
use kodiak_envoy::envoy::config::core::v3::{
    SubstitutionFormatString, TransportSocket, substitution_format_string, transport_socket,
};
use kodiak_envoy::envoy::config::endpoint::v3::lb_endpoint::HostIdentifier;
use kodiak_envoy::envoy::config::endpoint::v3::{ClusterLoadAssignment, Endpoint, LbEndpoint, LocalityLbEndpoints};
use kodiak_envoy::envoy::config::listener::v3::{
    Filter, FilterChain, Listener, ListenerFilter, filter, listener_filter,
};
use kodiak_envoy::envoy::config::route::v3::{
    DirectResponseAction, Route, RouteConfiguration, RouteMatch, VirtualHost, route, route_match,
};
use kodiak_envoy::envoy::extensions::filters::http::router::v3::Router;
use kodiak_envoy::envoy::extensions::filters::listener::tls_inspector::v3::TlsInspector;
use kodiak_envoy::envoy::extensions::filters::network::http_connection_manager::v3::{
    HttpConnectionManager, HttpFilter, LocalReplyConfig, http_connection_manager::RouteSpecifier, http_filter,
};
use kodiak_envoy::envoy::extensions::filters::network::tcp_proxy::v3::{TcpProxy, tcp_proxy};
use kodiak_envoy::envoy::extensions::transport_sockets::tls::v3::common_tls_context::ValidationContextType;
use kodiak_envoy::envoy::extensions::transport_sockets::tls::v3::{
    CertificateValidationContext, CommonTlsContext, DownstreamTlsContext, TlsCertificate,
};
use kodiak_envoy::{any, duration};
use kodiak_policies::mesh_traffic_permission::Permissions;

use super::samples::MESH;
use super::tls::{Authority, Server};
use crate::bootstrap::{inline, loopback};

const WORKLOAD: &str = "workload";

/// The listener of the set with this number that speaks HTTP. Also the prefix of its counters.
pub(super) fn http_name(n: usize) -> String {
    format!("http-{n}")
}

/// The one that takes any bytes.
pub(super) fn tcp_name(n: usize) -> String {
    format!("tcp-{n}")
}

/// All ports but that of the workload are chosen by the system.
pub(super) fn bootstrap(sets: &[&Permissions], authority: &Authority, workload: u16) -> Bootstrap {
    let server = authority.server();
    let listeners = sets.iter().enumerate().flat_map(|(n, permissions)| {
        let chains = [(http_name(n), http(n, permissions)), (tcp_name(n), tcp(n, permissions))];
        chains.map(|(name, filters)| listener(name, filters, permissions.needs_sni(), &server))
    });
    Bootstrap {
        admin: Some(Admin { address: Some(loopback(0)), ..Admin::default() }),
        static_resources: Some(StaticResources {
            listeners: listeners.collect(),
            clusters: vec![cluster(workload)],
            ..StaticResources::default()
        }),
        ..Bootstrap::default()
    }
}

fn listener(name: String, filters: Vec<Filter>, needs_sni: bool, server: &Server) -> Listener {
    let inspector = ListenerFilter {
        name: "envoy.filters.listener.tls_inspector".to_owned(),
        config_type: Some(listener_filter::ConfigType::TypedConfig(any(&TlsInspector::default()))),
        ..ListenerFilter::default()
    };
    let socket = TransportSocket {
        name: "envoy.transport_sockets.tls".to_owned(),
        config_type: Some(transport_socket::ConfigType::TypedConfig(any(&tls(server)))),
    };
    Listener {
        name,
        address: Some(loopback(0)),
        listener_filters: needs_sni.then_some(inspector).into_iter().collect(),
        filter_chains: vec![FilterChain { filters, transport_socket: Some(socket), ..FilterChain::default() }],
        ..Listener::default()
    }
}

fn tls(server: &Server) -> DownstreamTlsContext {
    let validation = CertificateValidationContext {
        trusted_ca: Some(inline(&server.root)),
        ..CertificateValidationContext::default()
    };
    let certificate = TlsCertificate {
        certificate_chain: Some(inline(&server.certificate)),
        private_key: Some(inline(&server.key)),
        ..TlsCertificate::default()
    };
    DownstreamTlsContext {
        require_client_certificate: Some(true),
        common_tls_context: Some(CommonTlsContext {
            tls_certificates: vec![certificate],
            validation_context_type: Some(ValidationContextType::ValidationContext(validation)),
            ..CommonTlsContext::default()
        }),
        ..DownstreamTlsContext::default()
    }
}

/// Answers 200 itself. In each answer stands how Envoy came to it.
fn http(n: usize, permissions: &Permissions) -> Vec<Filter> {
    let path_specifier = Some(route_match::PathSpecifier::Prefix("/".to_owned()));
    let route = Route {
        r#match: Some(RouteMatch { path_specifier, ..RouteMatch::default() }),
        action: Some(route::Action::DirectResponse(DirectResponseAction { status: 200, ..Default::default() })),
        ..Route::default()
    };
    let host = VirtualHost {
        name: "all".to_owned(),
        domains: vec!["*".to_owned()],
        routes: vec![route],
        ..VirtualHost::default()
    };
    let routes = RouteConfiguration { virtual_hosts: vec![host], ..RouteConfiguration::default() };
    let last = HttpFilter {
        name: "envoy.filters.http.router".to_owned(),
        config_type: Some(http_filter::ConfigType::TypedConfig(any(&Router::default()))),
        ..HttpFilter::default()
    };
    let details = substitution_format_string::Format::TextFormatSource(inline("%RESPONSE_CODE_DETAILS%"));
    let details = SubstitutionFormatString { format: Some(details), ..SubstitutionFormatString::default() };
    let manager = HttpConnectionManager {
        stat_prefix: http_name(n),
        http_filters: permissions.http_filters(MESH).into_iter().chain([last]).collect(),
        local_reply_config: Some(LocalReplyConfig { body_format: Some(details), ..LocalReplyConfig::default() }),
        route_specifier: Some(RouteSpecifier::RouteConfig(routes)),
        ..HttpConnectionManager::default()
    };
    vec![Filter {
        name: "envoy.filters.network.http_connection_manager".to_owned(),
        config_type: Some(filter::ConfigType::TypedConfig(any(&manager))),
    }]
}

fn tcp(n: usize, permissions: &Permissions) -> Vec<Filter> {
    let proxy = TcpProxy {
        stat_prefix: tcp_name(n),
        cluster_specifier: Some(tcp_proxy::ClusterSpecifier::Cluster(WORKLOAD.to_owned())),
        ..TcpProxy::default()
    };
    let last = Filter {
        name: "envoy.filters.network.tcp_proxy".to_owned(),
        config_type: Some(filter::ConfigType::TypedConfig(any(&proxy))),
    };
    permissions.network_filters(MESH, &format!("{}.", tcp_name(n))).into_iter().chain([last]).collect()
}

fn cluster(port: u16) -> Cluster {
    let endpoint = Endpoint { address: Some(loopback(port.into())), ..Endpoint::default() };
    let endpoint = LbEndpoint { host_identifier: Some(HostIdentifier::Endpoint(endpoint)), ..LbEndpoint::default() };
    let assignment = ClusterLoadAssignment {
        cluster_name: WORKLOAD.to_owned(),
        endpoints: vec![LocalityLbEndpoints { lb_endpoints: vec![endpoint], ..LocalityLbEndpoints::default() }],
        ..ClusterLoadAssignment::default()
    };
    Cluster {
        name: WORKLOAD.to_owned(),
        connect_timeout: Some(duration(Duration::from_secs(5))),
        cluster_discovery_type: Some(ClusterDiscoveryType::Type(DiscoveryType::Static.into())),
        load_assignment: Some(assignment),
        ..Cluster::default()
    }
}
