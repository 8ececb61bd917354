//! Filter chains and clusters of the destinations outside the mesh that a MeshPassthrough matches.

use kodiak_envoy::duration;
use kodiak_envoy::envoy::config::cluster::v3::Cluster;
use kodiak_envoy::envoy::config::core::v3::Http1ProtocolOptions;
use kodiak_envoy::envoy::config::listener::v3::{Filter, FilterChain, FilterChainMatch, Listener};
use kodiak_envoy::envoy::config::route::v3::{Route, RouteConfiguration, VirtualHost, route};
use kodiak_envoy::envoy::extensions::filters::network::http_connection_manager::v3::HttpConnectionManager;
use kodiak_envoy::envoy::extensions::filters::network::http_connection_manager::v3::http_connection_manager::UpgradeConfig;
use kodiak_model::Cidr;
use kodiak_policies::passthrough::{IpRange, OutsideDestination, PassthroughMatch, PassthroughProtocol};
use kodiak_policies::target::Upstream;

use super::inspection::{Inspection, TIMEOUT};
use super::leaves::{self, Decision, Hosts, Inspected, Leaf};
use super::refused::{self, RefusingMode};
use crate::input::{HostHeader, UpstreamProtocol};
use crate::routes::{self, RouteTimeouts};
use crate::{address, clusters, filters, names, timeouts};

const TLS: &str = "tls";
const PLAINTEXT: &str = "raw_buffer";
/// As the HTTP inspector names them.
const HTTP: &[&str] = &["http/1.0", "http/1.1", "h2c"];

/// Adds the chains of one IP family to a listener for redirected connections. The proxy answers calls to addresses in
/// the `trimmed` ranges itself, with the chain `answers`.
pub(super) fn listener(
    redirected: Listener,
    matches: &[PassthroughMatch],
    ipv6: bool,
    trimmed: &[Cidr],
    answers: Option<&FilterChain>,
) -> Listener {
    let inspection = Inspection::of(matches);
    let hidden: Vec<IpRange> =
        trimmed.iter().filter_map(|range| IpRange::new(range.first().into(), range.length())).collect();
    let leaves = leaves::of(matches, ipv6, &hidden, &inspection);
    let listener_filters = inspection.filters();
    let inspects = !listener_filters.is_empty();
    Listener {
        filter_chains: answered(&leaves, answers).chain(leaves.iter().flat_map(|leaf| chains(leaf, ipv6))).collect(),
        default_filter_chain: Some(refused::chain(RefusingMode::Matched)),
        listener_filters,
        listener_filters_timeout: inspects.then(|| duration(TIMEOUT)),
        continue_on_listener_filters_timeout: inspects,
        ..redirected
    }
}

pub(super) fn clusters(matches: &[PassthroughMatch], ipv6: bool) -> Vec<Cluster> {
    let used = |matched: &&PassthroughMatch| match matched.destination {
        OutsideDestination::AnyDomain | OutsideDestination::Domain(_) => true,
        OutsideDestination::Range(range) => ipv6 || !range.is_ipv6(),
    };
    matches.iter().filter(used).map(cluster).collect()
}

fn cluster(matched: &PassthroughMatch) -> Cluster {
    let upstream = match matched.protocol {
        PassthroughProtocol::Tcp | PassthroughProtocol::Mysql | PassthroughProtocol::Tls => UpstreamProtocol::Tcp,
        PassthroughProtocol::Http => UpstreamProtocol::Http1,
        PassthroughProtocol::Http2 => UpstreamProtocol::Http2,
        PassthroughProtocol::Grpc => UpstreamProtocol::Grpc,
    };
    let cluster = super::original_destination(&names::passthrough_cluster(matched));
    clusters::seal(Upstream { cluster, http: clusters::http_to(upstream), traffic: upstream.traffic() })
}

/// Envoy looks at the port first, so each port needs a chain for these addresses.
fn answered<'a>(leaves: &'a [Leaf<'_>], answers: Option<&'a FilterChain>) -> impl Iterator<Item = FilterChain> + 'a {
    let one_per_port = leaves.iter().filter(|leaf| leaf.ranges.is_empty());
    one_per_port.filter_map(move |leaf| {
        let mut chain = answers?.clone();
        if let Some(matched) = &mut chain.filter_chain_match {
            matched.destination_port = leaf.port.map(u32::from);
        }
        Some(chain)
    })
}

fn chains(leaf: &Leaf<'_>, ipv6: bool) -> Vec<FilterChain> {
    let range = |range: &IpRange| address::range(&range.first().to_string(), range.length().into());
    let place = || FilterChainMatch {
        destination_port: leaf.port.map(u32::from),
        prefix_ranges: leaf.ranges.iter().map(range).collect(),
        ..FilterChainMatch::default()
    };
    let inspected = match &leaf.decision {
        Decision::Bytes(matched) => return vec![tcp(place(), matched)],
        Decision::Refused => return Vec::new(),
        Decision::Inspected(inspected) => inspected,
    };
    let Inspected { tls_by_sni, other_tls, http, other_bytes } = inspected;
    let transport = |transport: &str| FilterChainMatch { transport_protocol: transport.to_owned(), ..place() };
    let by_sni = tls_by_sni.iter().map(|(name, matched)| {
        tcp(FilterChainMatch { server_names: vec![(*name).to_owned()], ..transport(TLS) }, matched)
    });
    let other_tls = other_tls.iter().map(|matched| tcp(transport(TLS), matched));
    let http = http.iter().map(|hosts| {
        let name = names::passthrough_http(leaf.port);
        let protocols = HTTP.iter().map(|&protocol| protocol.to_owned()).collect();
        let matched = FilterChainMatch { application_protocols: protocols, ..transport(PLAINTEXT) };
        chain(&name, matched, filters::http_filter(&manager(&name, hosts, ipv6)))
    });
    let other_bytes = other_bytes.iter().map(|matched| tcp(transport(PLAINTEXT), matched));
    by_sni.chain(other_tls).chain(http).chain(other_bytes).collect()
}

fn tcp(place: FilterChainMatch, matched: &PassthroughMatch) -> FilterChain {
    let cluster = names::passthrough_cluster(matched);
    chain(&cluster, place, filters::tcp_filter(&filters::tcp_proxy(&cluster, &cluster, None)))
}

fn chain(name: &str, matched: FilterChainMatch, filter: Filter) -> FilterChain {
    FilterChain {
        name: name.to_owned(),
        filter_chain_match: Some(matched),
        filters: vec![filter],
        ..FilterChain::default()
    }
}

/// Requests to other hosts have no route.
fn manager(name: &str, hosts: &Hosts<'_>, ipv6: bool) -> HttpConnectionManager {
    let by_host = hosts.by_host.iter().map(|(host, matched)| virtual_host(host, matched));
    let routes = RouteConfiguration {
        name: name.to_owned(),
        validate_clusters: Some(false),
        virtual_hosts: by_host.chain(hosts.other.map(|matched| virtual_host("*", matched))).collect(),
        // The port of the connection has been compared.
        ignore_port_in_host_matching: true,
        ..RouteConfiguration::default()
    };
    HttpConnectionManager {
        http_protocol_options: Some(Http1ProtocolOptions { accept_http_10: true, ..Http1ProtocolOptions::default() }),
        upgrade_configs: vec![UpgradeConfig { upgrade_type: "websocket".to_owned(), ..UpgradeConfig::default() }],
        access_log: vec![refused::request_log()],
        local_reply_config: Some(refused::reply()),
        http_filters: vec![filters::router()],
        ..filters::http(name, ipv6, routes)
    }
}

fn virtual_host(domain: &str, matched: &PassthroughMatch) -> VirtualHost {
    let cluster = names::passthrough_cluster(matched);
    let mut route = routes::catch_all("", &cluster, HostHeader::Unchanged, RouteTimeouts::Unlimited);
    idle_as_connections(&mut route);
    VirtualHost { name: cluster, domains: vec![domain.to_owned()], routes: vec![route], ..VirtualHost::default() }
}

/// Without the policy these requests are bytes of a connection, whose timeout is longer than that of streams.
fn idle_as_connections(route: &mut Route) {
    if let Some(route::Action::Route(action)) = &mut route.action {
        action.idle_timeout = Some(duration(timeouts::IDLE));
    }
}
