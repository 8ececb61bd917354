//! Inbounds: what comes in for a workload, and the workload itself.

use std::net::IpAddr;

use kodiak_envoy::duration;
use kodiak_envoy::envoy::config::cluster::v3::Cluster;
use kodiak_envoy::envoy::config::core::v3::{BindConfig, TrafficDirection};
use kodiak_envoy::envoy::config::listener::v3::{Filter, FilterChain, FilterChainMatch, Listener};
use kodiak_envoy::envoy::config::route::v3::RouteConfiguration;
use kodiak_envoy::envoy::extensions::filters::network::http_connection_manager::v3::http_connection_manager::{
    ForwardClientCertDetails, SetCurrentClientCertDetails,
};
use kodiak_envoy::envoy::extensions::filters::network::http_connection_manager::v3::{
    HttpConnectionManager, HttpFilter,
};
use kodiak_model::{Protocol, tags::SERVICE};

use crate::clusters::{self, Http};
use crate::input::{Accept, Inbound, Tags};
use crate::{address, filters, metadata, names, routes, timeouts, tls};

/// What an inbound's filters do, each in its place below.
#[derive(Debug, Clone, Copy)]
enum Step {
    Permissions,
    GrpcStats,
    Router,
    TcpProxy,
}

/// HTTP filters, outermost first.
const HTTP_ORDER: &[Step] = &[
    Step::Permissions, // who may not call costs nothing and is counted nowhere else
    Step::GrpcStats,   // counts what the workload answers, so right before it
    Step::Router,      // terminal, must be last
];

/// Network filters of everything that is not HTTP, outermost first.
const NETWORK_ORDER: &[Step] = &[
    Step::Permissions, // before a connection to the workload is opened
    Step::TcpProxy,    // terminal, must be last
];

pub fn listener(inbound: &Inbound) -> Listener {
    let name = names::inbound_listener(&inbound.address, inbound.port);
    let inspects =
        inbound.accept == Accept::Both || (inbound.accept == Accept::Mtls && inbound.permissions.needs_sni());
    Listener {
        address: Some(address::tcp(&inbound.address, inbound.port)),
        traffic_direction: TrafficDirection::Inbound.into(),
        enable_reuse_port: Some(inbound.shape.reuse_port),
        bind_to_port: inbound.shape.transparent.then_some(false),
        metadata: Some(metadata::under(&[names::TAGS_METADATA], &shown_tags(inbound))),
        listener_filters: inspects.then(filters::tls_inspector).into_iter().collect(),
        filter_chains: chains(inbound, &name),
        name,
        ..Listener::default()
    }
}

/// The workload behind an inbound.
pub fn cluster(inbound: &Inbound) -> Cluster {
    let name = inbound.cluster.to_string();
    let workload = address::tcp(&inbound.workload_address, inbound.workload_port);
    Cluster {
        upstream_bind_config: source(inbound),
        typed_extension_protocol_options: http_of(inbound.protocol)
            .map(clusters::http_to_service)
            .into_iter()
            .collect(),
        ..clusters::of_one(&name, workload)
    }
}

fn chains(inbound: &Inbound, listener: &str) -> Vec<FilterChain> {
    let plain = |protocol: &str| FilterChain {
        filter_chain_match: Some(transport(protocol)),
        filters: network_filters(inbound, listener, false),
        ..FilterChain::default()
    };
    let mesh = |matched: Option<FilterChainMatch>| FilterChain {
        filter_chain_match: matched,
        filters: network_filters(inbound, listener, true),
        transport_socket: Some(tls::socket(&tls::downstream(&inbound.mesh))),
        ..FilterChain::default()
    };
    match inbound.accept {
        Accept::Plain => {
            vec![FilterChain { filters: network_filters(inbound, listener, false), ..FilterChain::default() }]
        }
        Accept::Both => {
            let from_mesh = FilterChainMatch { application_protocols: vec![tls::ALPN.to_owned()], ..transport("tls") };
            // TLS without our ALPN is the workload's own: over TCP it goes through, HTTP cannot read it.
            vec![plain("raw_buffer"), plain("tls"), mesh(Some(from_mesh))]
        }
        Accept::Mtls => vec![mesh(None)],
    }
}

fn transport(protocol: &str) -> FilterChainMatch {
    FilterChainMatch { transport_protocol: protocol.to_owned(), ..FilterChainMatch::default() }
}

/// Permissions know callers by their certificates, so they are for mTLS only.
fn network_filters(inbound: &Inbound, listener: &str, mtls: bool) -> Vec<Filter> {
    if http_of(inbound.protocol).is_some() {
        return vec![filters::http_filter(&http(inbound, listener, mtls))];
    }
    let cluster = inbound.cluster.to_string();
    let mut all = Vec::new();
    for step in NETWORK_ORDER {
        match step {
            Step::Permissions if mtls => {
                let stat_prefix = format!("{}.", names::stat_name(listener));
                all.extend(inbound.permissions.network_filters(&inbound.mesh, &stat_prefix));
            }
            Step::TcpProxy => all.push(filters::service_tcp_proxy(&cluster, &cluster)),
            Step::Permissions | Step::GrpcStats | Step::Router => (),
        }
    }
    all
}

fn http(inbound: &Inbound, listener: &str, mtls: bool) -> HttpConnectionManager {
    let cluster = inbound.cluster.to_string();
    HttpConnectionManager {
        forward_client_cert_details: ForwardClientCertDetails::SanitizeSet.into(),
        set_current_client_cert_details: Some(SetCurrentClientCertDetails {
            uri: true,
            ..SetCurrentClientCertDetails::default()
        }),
        stream_idle_timeout: Some(duration(timeouts::INBOUND_STREAM_IDLE)),
        http_filters: http_filters(inbound, mtls),
        ..filters::http(&cluster, inbound.shape.ipv6, route_configuration(inbound, listener, &cluster))
    }
}

fn http_filters(inbound: &Inbound, mtls: bool) -> Vec<HttpFilter> {
    let mut all = Vec::new();
    for step in HTTP_ORDER {
        match step {
            Step::Permissions if mtls => all.extend(inbound.permissions.http_filters(&inbound.mesh)),
            Step::GrpcStats if inbound.protocol == Protocol::Grpc => all.push(filters::grpc_stats()),
            Step::Router => all.push(filters::router()),
            Step::Permissions | Step::GrpcStats | Step::TcpProxy => (),
        }
    }
    all
}

fn route_configuration(inbound: &Inbound, listener: &str, cluster: &str) -> RouteConfiguration {
    let (name, host) = match inbound.tags.get(SERVICE) {
        Some(service) => (names::inbound_routes(service), service.as_str()),
        None => (listener.to_owned(), listener),
    };
    RouteConfiguration {
        // Who the caller is comes from its certificate, not from what it says.
        request_headers_to_remove: vec!["x-kuma-tags".to_owned()],
        ..routes::all_domains(name, host, vec![routes::catch_all("", cluster)])
    }
}

fn shown_tags(inbound: &Inbound) -> Tags {
    if inbound.tags.is_empty() {
        return Tags::from([("kuma.io/unified-name".to_owned(), names::inbound_section(&inbound.section))]);
    }
    inbound.tags.clone()
}

/// Connections to the workload that come from this address are not redirected to us again.
fn source(inbound: &Inbound) -> Option<BindConfig> {
    let workload: Option<IpAddr> = inbound.workload_address.parse().ok();
    if !inbound.shape.transparent || workload.is_some_and(|ip| ip.is_loopback()) {
        return None;
    }
    let ipv6 = workload.is_some_and(|ip| ip.is_ipv6());
    Some(redirect_free_source(ipv6))
}

pub(crate) fn redirect_free_source(ipv6: bool) -> BindConfig {
    let address = if ipv6 { "::6" } else { "127.0.0.6" };
    BindConfig { source_address: Some(address::socket(address, 0)), ..BindConfig::default() }
}

/// Which HTTP the workload speaks, if any.
fn http_of(protocol: Protocol) -> Option<Http> {
    match protocol {
        Protocol::Http => Some(Http::One),
        Protocol::Http2 | Protocol::Grpc => Some(Http::Two),
        Protocol::Kafka | Protocol::Mysql | Protocol::Tcp | Protocol::Tls => None,
    }
}

#[cfg(test)]
mod tests;
