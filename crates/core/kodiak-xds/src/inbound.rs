//! Inbounds: the listener, and the cluster of the application.

use std::net::IpAddr;

use kodiak_envoy::duration;
use kodiak_envoy::envoy::config::cluster::v3::Cluster;
use kodiak_envoy::envoy::config::core::v3::{BindConfig, TrafficDirection};
use kodiak_envoy::envoy::config::listener::v3::{FilterChain, FilterChainMatch, Listener};
use kodiak_envoy::envoy::config::route::v3::RouteConfiguration;
use kodiak_envoy::envoy::extensions::filters::network::http_connection_manager::v3::HttpConnectionManager;
use kodiak_envoy::envoy::extensions::filters::network::http_connection_manager::v3::http_connection_manager::{
    ForwardClientCertDetails, SetCurrentClientCertDetails,
};
use kodiak_model::{InboundTls, Protocol, tags::SERVICE};
use kodiak_policies::target::{self, Carrier, Chain, Upstream};

use crate::clusters::{self, Http};
use crate::input::{HostHeader, Inbound, Tags};
use crate::routes::RouteTimeouts;
use crate::{address, carrier, filters, metadata, names, plaintext_log, routes, timeouts, tls};

pub fn listener(inbound: &Inbound) -> Listener {
    let name = names::inbound_listener(&inbound.address, inbound.port);
    let mut made = made(inbound, &name);
    if let Some(pipe) = &inbound.plaintext_callers {
        let plaintext = made.chains.iter_mut().filter(|chain| !chain.mtls);
        plaintext.for_each(|chain| plaintext_log::add(&mut chain.carrier, pipe, inbound.port));
    }
    let context = || tls::downstream(&inbound.mesh, &inbound.tls, &inbound.tls_parameters);
    let chains = made.chains.into_iter().zip(chain_matches(inbound)).map(|(chain, chain_match)| FilterChain {
        filter_chain_match: chain_match.matched,
        filters: carrier::seal(chain.carrier),
        transport_socket: chain_match.mtls.then(|| tls::socket(&context())),
        ..FilterChain::default()
    });
    Listener {
        address: Some(address::tcp(&inbound.address, inbound.port)),
        traffic_direction: TrafficDirection::Inbound.into(),
        enable_reuse_port: Some(inbound.shape.reuse_port),
        bind_to_port: inbound.shape.transparent.then_some(false),
        metadata: Some(metadata::under(&[names::TAGS_METADATA], &shown_tags(inbound))),
        listener_filters: made.inspects_tls.then(filters::tls_inspector).into_iter().collect(),
        filter_chains: chains.collect(),
        name,
        ..Listener::default()
    }
}

/// Cluster of the application of an inbound.
pub fn cluster(inbound: &Inbound) -> Cluster {
    let listener = names::inbound_listener(&inbound.address, inbound.port);
    clusters::seal(made(inbound, &listener).workload)
}

/// Filter chains and cluster, after policies changed them.
fn made<'a>(inbound: &'a Inbound, listener: &'a str) -> target::Inbound<'a> {
    let workload = address::tcp(&inbound.workload_address, inbound.workload_port);
    let workload = Cluster { upstream_bind_config: source(inbound), ..clusters::of_one(&inbound.cluster, workload) };
    let chains = chain_matches(inbound)
        .into_iter()
        .map(|ChainMatch { mtls, .. }| Chain { mtls, carrier: carrier(inbound, listener) });
    let mut made = target::Inbound {
        mesh: &inbound.mesh,
        listener,
        protocol: inbound.protocol,
        service: inbound.tags.get(SERVICE).map_or("", String::as_str),
        facts: &inbound.facts,
        chains: chains.collect(),
        inspects_tls: inbound.accept == InboundTls::Permissive,
        workload: upstream(workload, inbound.protocol),
    };
    for policy in kodiak_policies::in_force() {
        let entries = inbound.entries.get(policy.kind().name).map_or(&[][..], Vec::as_slice);
        policy.inbound(entries, &mut made);
    }
    made
}

fn upstream(cluster: Cluster, protocol: Protocol) -> Upstream {
    let http = http_of(protocol).map(|http| match protocol {
        Protocol::Grpc => clusters::grpc_to_service(),
        _ => clusters::http_to_service(http),
    });
    Upstream { cluster, http, traffic: protocol.into() }
}

/// Filter chain match of one chain.
struct ChainMatch {
    matched: Option<FilterChainMatch>,
    mtls: bool,
}

fn chain_matches(inbound: &Inbound) -> Vec<ChainMatch> {
    let plain = |protocol: &str| ChainMatch { matched: Some(transport(protocol)), mtls: false };
    match inbound.accept {
        InboundTls::Plaintext => vec![ChainMatch { matched: None, mtls: false }],
        InboundTls::Permissive => {
            let from_mesh = FilterChainMatch { application_protocols: vec![tls::ALPN.to_owned()], ..transport("tls") };
            // TLS without the mesh's ALPN is the application's own: TCP passes it through, HTTP cannot parse it.
            vec![plain("raw_buffer"), plain("tls"), ChainMatch { matched: Some(from_mesh), mtls: true }]
        }
        InboundTls::Strict => vec![ChainMatch { matched: None, mtls: true }],
    }
}

fn transport(protocol: &str) -> FilterChainMatch {
    FilterChainMatch { transport_protocol: protocol.to_owned(), ..FilterChainMatch::default() }
}

fn carrier(inbound: &Inbound, listener: &str) -> Carrier {
    let cluster = &inbound.cluster;
    if http_of(inbound.protocol).is_none() {
        return carrier::tcp(cluster, cluster);
    }
    let manager = HttpConnectionManager {
        forward_client_cert_details: ForwardClientCertDetails::SanitizeSet.into(),
        set_current_client_cert_details: Some(SetCurrentClientCertDetails {
            uri: true,
            ..SetCurrentClientCertDetails::default()
        }),
        stream_idle_timeout: Some(duration(timeouts::INBOUND_STREAM_IDLE)),
        ..filters::http(cluster, inbound.shape.ipv6, route_configuration(inbound, listener))
    };
    let route = routes::catch_all("", cluster, HostHeader::Unchanged, RouteTimeouts::Default);
    carrier::http(manager, vec![route], inbound.protocol)
}

fn route_configuration(inbound: &Inbound, listener: &str) -> RouteConfiguration {
    let (name, host) = match inbound.tags.get(SERVICE) {
        Some(service) => (names::inbound_routes(service), service.as_str()),
        None => (listener.to_owned(), listener),
    };
    RouteConfiguration {
        // Callers are identified by their certificates, not by headers.
        request_headers_to_remove: vec!["x-kuma-tags".to_owned()],
        ..routes::all_domains(name, host, Vec::new())
    }
}

fn shown_tags(inbound: &Inbound) -> Tags {
    if inbound.tags.is_empty() {
        return Tags::from([("kuma.io/unified-name".to_owned(), names::inbound_section(&inbound.section))]);
    }
    inbound.tags.clone()
}

/// The redirection rules exclude connections to the application from this source address.
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

/// HTTP version of the application; `None` for TCP.
fn http_of(protocol: Protocol) -> Option<Http> {
    match protocol {
        Protocol::Http => Some(Http::One),
        Protocol::Http2 | Protocol::Grpc => Some(Http::Two),
        Protocol::Kafka | Protocol::Mysql | Protocol::Tcp | Protocol::Tls => None,
    }
}

#[cfg(test)]
mod tests;
