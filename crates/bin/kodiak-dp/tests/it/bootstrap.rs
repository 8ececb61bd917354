//! A static bootstrap with a bit of everything: a listener that answers itself, and a cluster with HTTP/2 and TLS.

use std::time::Duration;

use kodiak_envoy::envoy::config::bootstrap::v3::bootstrap::StaticResources;
use kodiak_envoy::envoy::config::bootstrap::v3::{Admin, Bootstrap};
use kodiak_envoy::envoy::config::cluster::v3::Cluster;
use kodiak_envoy::envoy::config::cluster::v3::cluster::{ClusterDiscoveryType, DiscoveryType};
use kodiak_envoy::envoy::config::core::v3::socket_address::PortSpecifier;
use kodiak_envoy::envoy::config::core::v3::{
    Address, DataSource, Http2ProtocolOptions, SocketAddress, TransportSocket, address, data_source, transport_socket,
};
use kodiak_envoy::envoy::config::endpoint::v3::lb_endpoint::HostIdentifier;
use kodiak_envoy::envoy::config::endpoint::v3::{ClusterLoadAssignment, Endpoint, LbEndpoint, LocalityLbEndpoints};
use kodiak_envoy::envoy::config::listener::v3::{Filter, FilterChain, Listener, filter};
use kodiak_envoy::envoy::config::route::v3::{
    DirectResponseAction, Route, RouteConfiguration, RouteMatch, VirtualHost, route, route_match,
};
use kodiak_envoy::envoy::extensions::filters::http::router::v3::Router;
use kodiak_envoy::envoy::extensions::filters::network::http_connection_manager::v3::{
    HttpConnectionManager, HttpFilter, http_connection_manager::RouteSpecifier, http_filter,
};
use kodiak_envoy::envoy::extensions::transport_sockets::tls::v3::common_tls_context::ValidationContextType;
use kodiak_envoy::envoy::extensions::transport_sockets::tls::v3::{
    CertificateValidationContext, CommonTlsContext, TlsCertificate, UpstreamTlsContext,
};
use kodiak_envoy::envoy::extensions::upstreams::http::v3::HttpProtocolOptions;
use kodiak_envoy::envoy::extensions::upstreams::http::v3::http_protocol_options::explicit_http_config::ProtocolConfig;
use kodiak_envoy::envoy::extensions::upstreams::http::v3::http_protocol_options::{
    ExplicitHttpConfig, UpstreamProtocolOptions,
};
use kodiak_envoy::{any, duration, unpack};

/// All ports are chosen by the system.
pub(crate) fn direct_response(body: &str) -> Bootstrap {
    Bootstrap {
        admin: Some(Admin { address: Some(loopback(0)), ..Admin::default() }),
        static_resources: Some(StaticResources {
            listeners: vec![listener(body)],
            clusters: vec![cluster()],
            ..StaticResources::default()
        }),
        ..Bootstrap::default()
    }
}

/// Puts something in the place of the cluster's private key that is none.
pub(crate) fn spoil_key(bootstrap: &mut Bootstrap) {
    let cluster = &mut bootstrap.static_resources.as_mut().unwrap().clusters[0];
    let socket = cluster.transport_socket.as_mut().unwrap();
    let Some(transport_socket::ConfigType::TypedConfig(config)) = &mut socket.config_type else {
        panic!("the cluster has TLS");
    };
    let mut tls: UpstreamTlsContext = unpack(config).unwrap();
    let certificate = &mut tls.common_tls_context.as_mut().unwrap().tls_certificates[0];
    certificate.private_key = Some(inline("not a key"));
    *config = any(&tls);
}

fn listener(body: &str) -> Listener {
    let action = route::Action::DirectResponse(DirectResponseAction {
        status: 200,
        body: Some(inline(body)),
        ..DirectResponseAction::default()
    });
    let path_specifier = Some(route_match::PathSpecifier::Prefix("/".to_owned()));
    let route = Route {
        r#match: Some(RouteMatch { path_specifier, ..RouteMatch::default() }),
        action: Some(action),
        ..Route::default()
    };
    let host = VirtualHost {
        name: "all".to_owned(),
        domains: vec!["*".to_owned()],
        routes: vec![route],
        ..VirtualHost::default()
    };
    let routes =
        RouteConfiguration { name: "inbound".to_owned(), virtual_hosts: vec![host], ..RouteConfiguration::default() };
    let last = HttpFilter {
        name: "envoy.filters.http.router".to_owned(),
        config_type: Some(http_filter::ConfigType::TypedConfig(any(&Router::default()))),
        ..HttpFilter::default()
    };
    let manager = HttpConnectionManager {
        stat_prefix: "inbound".to_owned(),
        http_filters: vec![last],
        route_specifier: Some(RouteSpecifier::RouteConfig(routes)),
        ..HttpConnectionManager::default()
    };
    let filter = Filter {
        name: "envoy.filters.network.http_connection_manager".to_owned(),
        config_type: Some(filter::ConfigType::TypedConfig(any(&manager))),
    };
    Listener {
        name: "inbound".to_owned(),
        address: Some(loopback(0)),
        filter_chains: vec![FilterChain { filters: vec![filter], ..FilterChain::default() }],
        ..Listener::default()
    }
}

fn cluster() -> Cluster {
    let http2 = HttpProtocolOptions {
        upstream_protocol_options: Some(UpstreamProtocolOptions::ExplicitHttpConfig(ExplicitHttpConfig {
            protocol_config: Some(ProtocolConfig::Http2ProtocolOptions(Http2ProtocolOptions::default())),
        })),
        ..HttpProtocolOptions::default()
    };
    let endpoint = LbEndpoint {
        host_identifier: Some(HostIdentifier::Endpoint(Endpoint { address: Some(loopback(9)), ..Endpoint::default() })),
        ..LbEndpoint::default()
    };
    let assignment = ClusterLoadAssignment {
        cluster_name: "backend".to_owned(),
        endpoints: vec![LocalityLbEndpoints { lb_endpoints: vec![endpoint], ..LocalityLbEndpoints::default() }],
        ..ClusterLoadAssignment::default()
    };
    Cluster {
        name: "backend".to_owned(),
        connect_timeout: Some(duration(Duration::from_secs(5))),
        cluster_discovery_type: Some(ClusterDiscoveryType::Type(DiscoveryType::StrictDns.into())),
        load_assignment: Some(assignment),
        typed_extension_protocol_options: [(
            "envoy.extensions.upstreams.http.v3.HttpProtocolOptions".to_owned(),
            any(&http2),
        )]
        .into(),
        transport_socket: Some(TransportSocket {
            name: "envoy.transport_sockets.tls".to_owned(),
            config_type: Some(transport_socket::ConfigType::TypedConfig(any(&tls()))),
        }),
        ..Cluster::default()
    }
}

/// With certificate, key and authority inside the message.
fn tls() -> UpstreamTlsContext {
    let made = rcgen::generate_simple_self_signed(["backend.mesh".to_owned()]).unwrap();
    let certificate = made.cert.pem();
    let validation = CertificateValidationContext {
        trusted_ca: Some(inline(&certificate)),
        ..CertificateValidationContext::default()
    };
    UpstreamTlsContext {
        sni: "backend.mesh".to_owned(),
        common_tls_context: Some(CommonTlsContext {
            alpn_protocols: vec!["h2".to_owned()],
            tls_certificates: vec![TlsCertificate {
                certificate_chain: Some(inline(&certificate)),
                private_key: Some(inline(&made.signing_key.serialize_pem())),
                ..TlsCertificate::default()
            }],
            validation_context_type: Some(ValidationContextType::ValidationContext(validation)),
            ..CommonTlsContext::default()
        }),
        ..UpstreamTlsContext::default()
    }
}

pub(crate) fn loopback(port: u32) -> Address {
    let socket = SocketAddress {
        address: "127.0.0.1".to_owned(),
        port_specifier: Some(PortSpecifier::PortValue(port)),
        ..SocketAddress::default()
    };
    Address { address: Some(address::Address::SocketAddress(socket)) }
}

pub(crate) fn inline(text: &str) -> DataSource {
    DataSource { specifier: Some(data_source::Specifier::InlineString(text.to_owned())), ..DataSource::default() }
}
