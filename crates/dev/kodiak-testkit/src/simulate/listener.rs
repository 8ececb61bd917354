//! Selects the listener of a connection, and its filter chain.

use kodiak_envoy::envoy::config::core::v3::TrafficDirection;
use kodiak_envoy::envoy::config::listener::v3::{FilterChain, FilterChainMatch, Listener, listener_filter};
use kodiak_envoy::envoy::extensions::filters::listener::http_inspector::v3::HttpInspector;
use kodiak_envoy::envoy::extensions::filters::listener::original_dst::v3::OriginalDst;
use kodiak_envoy::envoy::extensions::filters::listener::tls_inspector::v3::TlsInspector;
use kodiak_envoy::{TypeUrl, google::protobuf::Any};

use super::address::{self, Destination};
use super::refusal::{Refusal, refuse_if};
use super::request::{Connection, Protocol};

/// Results of the listener filters, before a chain is selected.
#[derive(Debug, Default)]
pub(super) struct Inspected {
    /// Empty unless the TLS inspector runs, also for later rules that match on it.
    pub(super) sni: String,
    transport: &'static str,
    applications: Vec<String>,
}

/// A listener with the exact address comes first, then one for all addresses. Listeners that do not bind get redirected
/// connections, and so does the redirecting listener when there is no other.
pub(super) fn find<'a>(
    listeners: &'a [Listener],
    direction: TrafficDirection,
    to: Destination<'_>,
) -> Result<&'a Listener, Refusal> {
    let redirects = |listener: &&Listener| {
        let at = address::tcp(listener.address.as_ref());
        listener.use_original_dst == Some(true)
            && listener.traffic_direction == i32::from(direction)
            && at.is_some_and(|(at, _)| address::is_any(at, to.address))
    };
    let redirecting = listeners.iter().find(redirects);
    let takes = |listener: &&Listener, same: &dyn Fn(&str) -> bool| {
        let bound = listener.bind_to_port != Some(false) || redirecting.is_some();
        bound && address::tcp(listener.address.as_ref()).is_some_and(|(at, port)| port == to.port && same(at))
    };
    listeners
        .iter()
        .find(|listener| takes(listener, &|at| address::same(at, to.address)))
        .or_else(|| listeners.iter().find(|listener| takes(listener, &|at| address::is_any(at, to.address))))
        .or(redirecting)
        .ok_or_else(|| Refusal::NoListener { address: to.address.to_owned(), port: to.port })
}

pub(super) fn inspect(listener: &Listener, connection: &Connection, protocol: Protocol) -> Result<Inspected, Refusal> {
    let mut inspected = Inspected { transport: "raw_buffer", ..Inspected::default() };
    let mut inspects_tls = false;
    for filter in &listener.listener_filters {
        refuse_if(filter.filter_disabled.is_some(), "listener filters for some ports only")?;
        let is = |url: &str| config(filter.config_type.as_ref()).is_some_and(|config| config.type_url == url);
        if is(TlsInspector::TYPE_URL) {
            inspects_tls = true;
            if let Some(tls) = &connection.tls {
                inspected.transport = "tls";
                inspected.sni = tls.sni.to_ascii_lowercase();
                inspected.applications.clone_from(&tls.alpn);
            }
        } else if is(HttpInspector::TYPE_URL) {
            let found = match protocol {
                Protocol::Http1 => Some("http/1.1"),
                Protocol::Http2 => Some("h2c"),
                Protocol::Bytes => None,
            };
            let readable = connection.tls.is_none();
            inspected.applications.extend(found.filter(|_| readable).map(str::to_owned));
        } else {
            refuse_if(!is(OriginalDst::TYPE_URL), &format!("the listener filter {}", filter.name))?;
        }
    }
    let asks = |chain: &FilterChain| {
        let matched = chain.filter_chain_match.as_ref();
        matched.is_some_and(|matched| matched.transport_protocol == "tls" || !matched.server_names.is_empty())
    };
    let blind = !inspects_tls && listener.filter_chains.iter().any(asks);
    refuse_if(blind, &format!("how {} tells TLS without the TLS inspector", listener.name))?;
    Ok(inspected)
}

/// Envoy evaluates one criterion after the other without backtracking: the chains with the best server name match are
/// then filtered by transport, even if another chain would have matched that.
pub(super) fn choose<'a>(
    listener: &'a Listener,
    to: Destination<'_>,
    inspected: &Inspected,
) -> Result<&'a FilterChain, Refusal> {
    refuse_if(listener.filter_chain_matcher.is_some(), "the matcher of filter chains")?;
    let none = FilterChainMatch::default();
    let mut chains = Vec::new();
    for chain in &listener.filter_chains {
        let matched = chain.filter_chain_match.clone().unwrap_or_else(|| none.clone());
        let by_source = !matched.source_prefix_ranges.is_empty()
            || !matched.direct_source_prefix_ranges.is_empty()
            || !matched.source_ports.is_empty()
            || matched.source_type != 0;
        refuse_if(by_source, "filter chains by where a connection comes from")?;
        chains.push((matched, chain));
    }
    let port = |matched: &FilterChainMatch| match matched.destination_port {
        None => Some(0),
        Some(port) => (port == u32::from(to.port)).then_some(1),
    };
    let ip = |matched: &FilterChainMatch| match matched.prefix_ranges.as_slice() {
        [] => Some(0),
        ranges => ranges.iter().filter_map(|range| address::in_range(range, to.address)).max().map(|fixed| fixed + 1),
    };
    let name = |matched: &FilterChainMatch| match matched.server_names.as_slice() {
        [] => Some(0),
        names => names.iter().filter_map(|name| server_name(name, &inspected.sni)).max(),
    };
    let transport = |matched: &FilterChainMatch| match matched.transport_protocol.as_str() {
        "" => Some(0),
        transport => (transport == inspected.transport).then_some(1),
    };
    let application = |matched: &FilterChainMatch| match matched.application_protocols.as_slice() {
        [] => Some(0),
        // The caller's first protocol is preferred.
        wanted => {
            let position = inspected.applications.iter().position(|offered| wanted.contains(offered));
            position.map(|position| u32::MAX - u32::try_from(position).unwrap_or(u32::MAX - 1))
        }
    };
    let chains = best(best(best(best(best(chains, port), ip), name), transport), application);
    let chosen = chains.first().map(|(_, chain)| *chain).or(listener.default_filter_chain.as_ref());
    chosen.ok_or_else(|| Refusal::NoChain { listener: listener.name.clone() })
}

/// The best matches; `None` is no match.
fn best(
    chains: Vec<(FilterChainMatch, &FilterChain)>,
    rank: impl Fn(&FilterChainMatch) -> Option<u32>,
) -> Vec<(FilterChainMatch, &FilterChain)> {
    let top = chains.iter().filter_map(|(matched, _)| rank(matched)).max();
    chains.into_iter().filter(|(matched, _)| top.is_some() && rank(matched) == top).collect()
}

/// An exact name is better than any wildcard, and a longer wildcard better than a shorter one.
fn server_name(pattern: &str, sni: &str) -> Option<u32> {
    let rank = |length: usize| u32::try_from(length).ok();
    match pattern.strip_prefix('*') {
        None => (pattern == sni).then_some(u32::MAX),
        Some(suffix) => (sni.len() > suffix.len() && sni.ends_with(suffix)).then(|| rank(suffix.len()))?,
    }
}

fn config(config: Option<&listener_filter::ConfigType>) -> Option<&Any> {
    match config {
        Some(listener_filter::ConfigType::TypedConfig(config)) => Some(config),
        Some(listener_filter::ConfigType::ConfigDiscovery(_)) | None => None,
    }
}
