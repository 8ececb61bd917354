//! Validation of MeshPassthrough.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
};

use kodiak_model::{Choice, FieldPath, Problems, TargetKind, TargetRules};

use super::{Conf, Match, MatchType, MeshPassthrough, Protocol};

const TOP: &[TargetKind] = &[TargetKind::Mesh, TargetKind::MeshSubset, TargetKind::Dataplane];

/// Envoy cannot distinguish these on the wire, so a port can have only one of them.
const HTTP_LIKE: &[Protocol] = &[Protocol::Grpc, Protocol::Http, Protocol::Http2];

pub(super) fn check(spec: &MeshPassthrough, problems: &mut Problems) {
    let at = FieldPath::SPEC;
    let MeshPassthrough { target_ref, default } = spec;
    if let Some(target) = target_ref {
        target.check(TargetRules::kinds(TOP), &at.field("targetRef"), problems);
    }
    let Conf { passthrough_mode, append_match } = default;
    let at = at.field("default");
    if let Some(mode) = passthrough_mode {
        mode.check(&at, "passthroughMode", problems);
    }
    let at = at.field("appendMatch");
    let mut ports = Ports::default();
    for (n, one) in append_match.iter().flatten().enumerate() {
        let at = at.index(n);
        check_port(one, &at.field("port"), problems);
        ports.check(one, &at, problems);
        one.protocol.check(&at, "protocol", problems);
        check_value(one, &at, problems);
    }
}

fn check_port(one: &Match, at: &FieldPath<'_>, problems: &mut Problems) {
    match one.port {
        None => {
            problems.require(!one.protocol.is(Protocol::Mysql), at, "port must be defined for Mysql protocol");
        }
        Some(port) => problems.require((1..=65535).contains(&port), at, "port must be a valid (1-65535)"),
    }
}

/// Protocols of the matches so far, by port.
#[derive(Default)]
struct Ports<'a> {
    protocols: BTreeMap<u32, &'a str>,
    values: BTreeSet<(u32, &'a str, &'a str)>,
}

impl<'a> Ports<'a> {
    fn check(&mut self, one: &'a Match, at: &FieldPath<'_>, problems: &mut Problems) {
        let Match { match_type: _, value, port, protocol } = one;
        let Some(port) = *port else { return };
        let other = self.protocols.get(&port).is_some_and(|before| *before != protocol.as_str());
        if other && is_http_like(protocol) {
            problems.add(
                &at.field("port"),
                "using the same port in multiple matches requires the same protocol for the following protocols: [grpc http http2]",
            );
        } else {
            self.protocols.insert(port, protocol.as_str());
        }
        if !self.values.insert((port, protocol.as_str(), value)) {
            let message = format!("value {value} is already defiend for this port and protocol");
            problems.add(&at.field("value"), message);
        }
    }
}

fn is_http_like(protocol: &Choice<Protocol>) -> bool {
    protocol.known().is_some_and(|protocol| HTTP_LIKE.contains(&protocol))
}

fn check_value(one: &Match, at: &FieldPath<'_>, problems: &mut Problems) {
    let Match { match_type, value, port: _, protocol: _ } = one;
    match match_type.as_ref().and_then(Choice::known) {
        Some(MatchType::Domain) => check_domain(one, at, problems),
        Some(MatchType::Ip) => {
            problems.require(value.parse::<IpAddr>().is_ok(), &at.field("value"), "provided IP has incorrect value");
        }
        Some(MatchType::Cidr) => {
            problems.require(is_cidr(value), &at.field("value"), "provided CIDR has incorrect value");
        }
        None => {
            let written = match_type.as_ref().map_or("", Choice::as_str);
            let message = format!("provided type {written} is not supported, one of Domain, IP, or CIDR is supported");
            problems.add(&at.field("type"), message);
        }
    }
}

fn check_domain(one: &Match, at: &FieldPath<'_>, problems: &mut Problems) {
    let Match { match_type: _, value, port, protocol } = one;
    if protocol.is(Protocol::Tcp) || protocol.is(Protocol::Mysql) {
        // Neither of them carries a hostname.
        problems.add(&at.field("protocol"), format!("protocol {protocol} is not supported for a domain"));
    }
    let Some(rest) = value.strip_prefix('*') else {
        problems.require(is_dns_name(value), &at.field("value"), "provided DNS has incorrect value");
        return;
    };
    if port.is_none() && is_http_like(protocol) {
        problems.add(&at.field("port"), "wildcard domains doesn't work for all ports and layer 7 protocol");
    }
    match rest.strip_prefix('.') {
        Some(name) => problems.require(is_dns_name(name), &at.field("value"), "provided DNS has incorrect value"),
        None => problems.require(
            rest.is_empty(),
            &at.field("value"),
            "provided DNS has incorrect value, partial wildcard is currently not supported",
        ),
    }
}

/// Underscores are invalid in hostnames, but occur in service names.
fn is_dns_name(text: &str) -> bool {
    const LONGEST: usize = 255;
    let inside = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    let is_label = |label: &str| {
        let bytes = label.as_bytes();
        bytes.len() <= 63 && bytes.first().copied().is_some_and(inside) && bytes.iter().all(|&b| inside(b) || b == b'-')
    };
    text.len() <= LONGEST
        && text.parse::<IpAddr>().is_err()
        && text.strip_suffix('.').unwrap_or(text).split('.').all(is_label)
}

fn is_cidr(text: &str) -> bool {
    let Some((address, bits)) = text.split_once('/') else { return false };
    let most = match address.parse() {
        Ok(IpAddr::V4(_)) => 32,
        Ok(IpAddr::V6(_)) => 128,
        Err(_) => return false,
    };
    bits.bytes().all(|b| b.is_ascii_digit()) && bits.parse::<u8>().is_ok_and(|bits| bits <= most)
}
