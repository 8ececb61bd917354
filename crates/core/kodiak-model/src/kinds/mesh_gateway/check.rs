//! Validation of a MeshGateway.

use std::collections::BTreeMap;

use super::{Conf, Listener, ListenerTls, MeshGateway, Protocol, Selector, TlsMode};
use crate::{FieldPath, Problems, address::check_port, dns, tags};

/// Tags that the control plane sets itself.
const OWN_TAGS: [&str; 4] = ["kuma.io/external-service-name", tags::PROTOCOL, tags::SERVICE, tags::ZONE];
const MAX_CERTIFICATES: usize = 2;

pub(super) fn check(spec: &MeshGateway, problems: &mut Problems) {
    let MeshGateway { selectors, tags, conf } = spec;
    let at = FieldPath::ROOT.field("selectors");
    problems.require(!selectors.is_empty(), &at, "must have at least one element");
    for (n, selector) in selectors.iter().enumerate() {
        check_selector(selector, &at.index(n).field("match"), problems);
    }
    check_tags(tags, &FieldPath::ROOT.field("tags"), problems);
    let at = FieldPath::ROOT.field("conf");
    let Some(Conf { listeners }) = conf else {
        problems.add(&at, "cannot be empty");
        return;
    };
    let at = at.field("listeners");
    problems.require(!listeners.is_empty(), &at, "cannot be empty");
    for (n, listener) in listeners.iter().enumerate() {
        check_listener(listener, &at.index(n), problems);
    }
}

fn check_selector(selector: &Selector, at: &FieldPath<'_>, problems: &mut Problems) {
    let Selector { tags } = selector;
    problems.require(!tags.is_empty(), at, "must have at least one tag");
    tags::check_selector(tags, at, problems);
    if !tags.contains_key(tags::SERVICE) {
        problems.add(at, format!("mandatory tag {:?} is missing", tags::SERVICE));
    }
}

fn check_listener(listener: &Listener, at: &FieldPath<'_>, problems: &mut Problems) {
    let Listener { hostname, port, protocol: _, tls, tags, cross_mesh: _, resources: _ } = listener;
    // `*` alone matches all hostnames, and is the default.
    if !matches!(hostname.as_str(), "" | "*") {
        let faults = if hostname.starts_with("*.") {
            dns::wildcard_subdomain(hostname)
        } else {
            dns::dns_1123_subdomain(hostname)
        };
        for fault in faults {
            problems.add(&at.field("hostname"), fault);
        }
    }
    check_port(*port, &at.field("port"), problems);
    match listener.protocol() {
        Protocol::None => problems.add(&at.field("protocol"), "cannot be empty"),
        Protocol::Udp => problems.add(&at.field("protocol"), "protocol type is not supported"),
        Protocol::Https | Protocol::Tls => problems.require(tls.is_some(), &at.field("tls"), "cannot be empty"),
        Protocol::Http | Protocol::Tcp => (),
    }
    if let Some(tls) = tls {
        check_tls(tls, &at.field("tls"), problems);
    }
    check_tags(tags, &at.field("tags"), problems);
}

fn check_tls(tls: &ListenerTls, at: &FieldPath<'_>, problems: &mut Problems) {
    let ListenerTls { mode: _, certificates } = tls;
    let at_certificates = at.field("certificates");
    match (tls.mode(), certificates.len()) {
        (TlsMode::None, _) => problems.add(&at.field("mode"), "cannot be empty"),
        (TlsMode::Passthrough, 1..) => problems.add(&at_certificates, "must be empty in TLS passthrough mode"),
        (TlsMode::Terminate, 0) => problems.add(&at_certificates, "cannot be empty in TLS termination mode"),
        (TlsMode::Terminate, count) if count > MAX_CERTIFICATES => {
            problems.add(&at_certificates, "cannot have more than 2 certificates");
        }
        _ => (),
    }
}

/// Tags of a gateway must not override those of the proxy.
fn check_tags(written: &BTreeMap<String, String>, at: &FieldPath<'_>, problems: &mut Problems) {
    tags::check_selector(written, at, problems);
    for key in OWN_TAGS.into_iter().filter(|key| written.contains_key(*key)) {
        problems.add(&at.key(key), format!("tag name must not be {key:?}"));
    }
}
