//! Ports at which Envoy inspects the first bytes of connections, to detect TLS and HTTP.
//!
//! The inspectors run on the redirecting listener, so also before a connection to a destination of the mesh is handed
//! over to its listener. They wait for bytes of the client: where the server sends first, that only ends with a timeout.

use std::collections::BTreeSet;
use std::time::Duration;

use kodiak_envoy::envoy::config::listener::v3::listener_filter_chain_match_predicate::{MatchSet, Rule};
use kodiak_envoy::envoy::config::listener::v3::{ListenerFilter, ListenerFilterChainMatchPredicate};
use kodiak_envoy::envoy::extensions::filters::listener::http_inspector::v3::HttpInspector;
use kodiak_envoy::envoy::extensions::filters::listener::original_dst::v3::OriginalDst;
use kodiak_envoy::envoy::r#type::v3::Int32Range;
use kodiak_policies::passthrough::{PassthroughMatch, PassthroughProtocol};

use crate::filters;

/// For the first bytes of the client. Afterwards the connection counts as neither TLS nor HTTP, so that a client that
/// waits for its server is only late.
pub(super) const TIMEOUT: Duration = Duration::from_secs(5);

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Inspection {
    /// At these ports.
    Ports(BTreeSet<u16>),
    /// At all ports except these.
    Except(BTreeSet<u16>),
}

impl Inspection {
    pub(super) fn of(matches: &[PassthroughMatch]) -> Self {
        let server_first = |matched: &&PassthroughMatch| matched.protocol == PassthroughProtocol::Mysql;
        let excluded: BTreeSet<u16> = matches.iter().filter(server_first).filter_map(|matched| matched.port).collect();
        let mut ports = BTreeSet::new();
        for matched in matches.iter().filter(|matched| is_detected(matched.protocol)) {
            let Some(port) = matched.port else { return Self::Except(excluded) };
            if !excluded.contains(&port) {
                ports.insert(port);
            }
        }
        Self::Ports(ports)
    }

    /// Without a port: ports that no match has.
    pub(super) fn covers(&self, port: Option<u16>) -> bool {
        match (self, port) {
            (Self::Ports(ports), Some(port)) => ports.contains(&port),
            (Self::Ports(_), None) => false,
            (Self::Except(ports), Some(port)) => !ports.contains(&port),
            (Self::Except(_), None) => true,
        }
    }

    /// The original destination comes first: it has the port by which the others are disabled.
    pub(super) fn filters(&self) -> Vec<ListenerFilter> {
        let disabled = match self {
            Self::Ports(ports) => {
                let Some(enabled) = any_of(ports) else { return Vec::new() };
                Some(predicate(Rule::NotMatch(Box::new(enabled))))
            }
            Self::Except(ports) => any_of(ports),
        };
        let original_dst = filters::listener_filter("envoy.filters.listener.original_dst", &OriginalDst::default());
        let http = filters::listener_filter("envoy.filters.listener.http_inspector", &HttpInspector::default());
        let inspectors = [filters::tls_inspector(), http];
        let inspectors = inspectors.map(|filter| ListenerFilter { filter_disabled: disabled.clone(), ..filter });
        [original_dst].into_iter().chain(inspectors).collect()
    }
}

fn is_detected(protocol: PassthroughProtocol) -> bool {
    match protocol {
        PassthroughProtocol::Tls
        | PassthroughProtocol::Http
        | PassthroughProtocol::Http2
        | PassthroughProtocol::Grpc => true,
        PassthroughProtocol::Tcp | PassthroughProtocol::Mysql => false,
    }
}

/// `None` without ports. A list of one is invalid for Envoy.
fn any_of(ports: &BTreeSet<u16>) -> Option<ListenerFilterChainMatchPredicate> {
    let of = |port: &u16| {
        let start = i32::from(*port);
        predicate(Rule::DestinationPortRange(Int32Range { start, end: start + 1 }))
    };
    let mut rules: Vec<_> = ports.iter().map(of).collect();
    if rules.len() > 1 { Some(predicate(Rule::OrMatch(MatchSet { rules }))) } else { rules.pop() }
}

fn predicate(rule: Rule) -> ListenerFilterChainMatchPredicate {
    ListenerFilterChainMatchPredicate { rule: Some(rule) }
}
