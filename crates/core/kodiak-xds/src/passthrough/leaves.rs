//! Matches of a MeshPassthrough, arranged as Envoy chooses a filter chain.
//!
//! Envoy looks at the port, then at the longest range with the address, then at the SNI, and never goes back: when no
//! chain of the port and range accepts a connection, those of broader ranges and of all ports are not tried. A policy
//! allows whatever one of its matches allows. So each port and each range repeat the broader matches that include them.

use std::collections::{BTreeMap, BTreeSet};

use kodiak_policies::passthrough::{IpRange, OutsideDestination, PassthroughMatch, PassthroughProtocol};

use super::inspection::Inspection;

/// Decision about connections to these ranges at this port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Leaf<'a> {
    /// Ports that have no leaf of their own when missing.
    pub(super) port: Option<u16>,
    /// Addresses that are in no range of another leaf when empty.
    pub(super) ranges: Vec<IpRange>,
    pub(super) decision: Decision<'a>,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Decision<'a> {
    /// Any bytes pass.
    Bytes(&'a PassthroughMatch),
    /// Envoy inspects the first bytes.
    Inspected(Inspected<'a>),
    Refused,
}

/// Matches by the protocol of a connection. What none of them matches is refused.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Inspected<'a> {
    pub(super) tls_by_sni: BTreeMap<&'a str, &'a PassthroughMatch>,
    pub(super) other_tls: Option<&'a PassthroughMatch>,
    /// `None` when HTTP passes as other bytes do.
    pub(super) http: Option<Hosts<'a>>,
    pub(super) other_bytes: Option<&'a PassthroughMatch>,
}

/// Matches of HTTP requests by their host.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Hosts<'a> {
    pub(super) by_host: BTreeMap<&'a str, &'a PassthroughMatch>,
    pub(super) other: Option<&'a PassthroughMatch>,
}

/// For addresses of one family, except those in the `hidden` ranges.
pub(super) fn of<'a>(
    matches: &'a [PassthroughMatch],
    ipv6: bool,
    hidden: &[IpRange],
    inspection: &Inspection,
) -> Vec<Leaf<'a>> {
    let visible = |matched: &PassthroughMatch| match matched.destination {
        OutsideDestination::AnyDomain | OutsideDestination::Domain(_) => true,
        OutsideDestination::Range(range) => {
            range.is_ipv6() == ipv6 && !hidden.iter().any(|hidden| hidden.contains(range))
        }
    };
    let matches: Vec<_> = matches.iter().filter(|matched| visible(matched)).collect();
    let ports: BTreeSet<_> = matches.iter().map(|matched| matched.port).chain([None]).collect();
    ports.into_iter().flat_map(|port| of_port(&matches, port, inspection.covers(port))).collect()
}

fn of_port<'a>(matches: &[&'a PassthroughMatch], port: Option<u16>, inspected: bool) -> Vec<Leaf<'a>> {
    let includes = |matched: &&&PassthroughMatch| matched.port.is_none() || matched.port == port;
    let matches: Vec<_> = matches.iter().filter(includes).copied().collect();
    let ranges: BTreeSet<_> = matches.iter().filter_map(|matched| range_of(matched)).collect();
    // Ranges with the same decision share their chains.
    let mut decisions: BTreeMap<Decision<'a>, Vec<IpRange>> = BTreeMap::new();
    for range in ranges {
        decisions.entry(decide(&matches, Some(range), inspected)).or_default().push(range);
    }
    let others = Leaf { port, ranges: Vec::new(), decision: decide(&matches, None, inspected) };
    let leaves = decisions.into_iter().map(|(decision, ranges)| Leaf { port, ranges, decision });
    leaves.chain([others]).collect()
}

/// About addresses in a range, or outside of all of them.
fn decide<'a>(matches: &[&'a PassthroughMatch], range: Option<IpRange>, inspected: bool) -> Decision<'a> {
    let includes = |matched: &PassthroughMatch| match (&matched.destination, range) {
        (OutsideDestination::AnyDomain, _) => true,
        (OutsideDestination::Domain(_), _) | (OutsideDestination::Range(_), None) => false,
        (OutsideDestination::Range(broader), Some(range)) => broader.contains(range),
    };
    let best = |accepts: &dyn Fn(&PassthroughMatch) -> bool| {
        let found = matches.iter().copied().filter(|matched| includes(matched) && accepts(matched));
        // The first of several equal ones.
        found.rev().max_by_key(|matched| specificity(matched))
    };
    if !inspected {
        // The protocol cannot be verified, but the address can.
        let by_address = best(&|matched| range_of(matched).is_some());
        return by_address.map_or(Decision::Refused, Decision::Bytes);
    }
    let bytes = best(&|matched| match matched.protocol {
        PassthroughProtocol::Tcp | PassthroughProtocol::Mysql => true,
        PassthroughProtocol::Tls
        | PassthroughProtocol::Http
        | PassthroughProtocol::Http2
        | PassthroughProtocol::Grpc => false,
    });
    let tls = best(&|matched| matched.protocol == PassthroughProtocol::Tls);
    let http = best(&|matched| matched.protocol.is_http());
    let Some(bytes) = bytes else {
        let by_name = |accepts: &dyn Fn(&PassthroughMatch) -> bool| by_name(matches, accepts);
        return Decision::Inspected(Inspected {
            tls_by_sni: by_name(&|matched| matched.protocol == PassthroughProtocol::Tls),
            other_tls: tls,
            // Also without a match: requests that are refused get an answer.
            http: Some(Hosts { by_host: by_name(&|matched| matched.protocol.is_http()), other: http }),
            other_bytes: None,
        });
    };
    // Everything passes here: hostnames do not matter, and a protocol only if its match is as specific.
    let as_specific = |matched: &&PassthroughMatch| specificity(matched) >= specificity(bytes);
    let (tls, http) = (tls.filter(as_specific), http.filter(as_specific));
    if tls.is_none() && http.is_none() {
        return Decision::Bytes(bytes);
    }
    Decision::Inspected(Inspected {
        tls_by_sni: BTreeMap::new(),
        other_tls: Some(tls.unwrap_or(bytes)),
        http: http.map(|other| Hosts { by_host: BTreeMap::new(), other: Some(other) }),
        other_bytes: Some(bytes),
    })
}

/// The best match for each hostname.
fn by_name<'a>(
    matches: &[&'a PassthroughMatch],
    accepts: &dyn Fn(&PassthroughMatch) -> bool,
) -> BTreeMap<&'a str, &'a PassthroughMatch> {
    let mut by_name: BTreeMap<&str, &PassthroughMatch> = BTreeMap::new();
    for &matched in matches.iter().filter(|matched| accepts(matched)) {
        let OutsideDestination::Domain(name) = &matched.destination else { continue };
        let best = by_name.entry(name).or_insert(matched);
        if specificity(matched) > specificity(best) {
            *best = matched;
        }
    }
    by_name
}

/// Compares matches that include the same connection: the longest prefix first, then a port.
fn specificity(matched: &PassthroughMatch) -> (Option<u8>, bool) {
    (range_of(matched).map(IpRange::length), matched.port.is_some())
}

fn range_of(matched: &PassthroughMatch) -> Option<IpRange> {
    match matched.destination {
        OutsideDestination::Range(range) => Some(range),
        OutsideDestination::AnyDomain | OutsideDestination::Domain(_) => None,
    }
}
