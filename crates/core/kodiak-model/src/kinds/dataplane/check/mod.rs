//! Validation of a Dataplane.

mod inbound;
mod listener;
mod outbound;
pub(super) mod reachable;

use std::collections::BTreeMap;

use super::{Dataplane, Gateway, GatewayType, Inbound, Networking, Probes};
use crate::{
    FieldPath, Problems,
    address::{binds_loopback, check_host, check_port},
    kinds::mesh,
    tags, uri,
};

pub(super) fn check(spec: &Dataplane, problems: &mut Problems) {
    let Dataplane { networking, metrics, probes } = spec;
    let at = FieldPath::ROOT.field("networking");
    let Some(networking) = networking else {
        problems.add(&at, "must be defined");
        return;
    };
    check_networking(networking, &at, problems);
    if let Some(probes) = probes {
        let builtin = spec.is_builtin_gateway();
        problems.require(!builtin, &at.field("probes"), "probes cannot be defined for builtin gateways");
        check_probes(probes, &FieldPath::ROOT.field("probes"), problems);
    }
    if let Some(metrics) = metrics {
        mesh::check_metrics_backend(metrics, &FieldPath::ROOT.field("metrics"), problems);
    }
}

fn check_networking(networking: &Networking, at: &FieldPath<'_>, problems: &mut Problems) {
    let Networking {
        address,
        advertised_address: _,
        gateway,
        inbound,
        outbound,
        transparent_proxying,
        admin,
        listeners,
    } = networking;
    if let Some(admin) = admin {
        check_admin_port(networking, admin.port, &at.field("admin"), problems);
    }
    if let Some(gateway) = gateway {
        check_gateway(gateway, networking, at, problems);
    }
    check_host(address, &at.field("address"), problems);
    for (n, item) in inbound.iter().enumerate() {
        inbound::check(item, address, &at.field("inbound").index(n), problems);
    }
    for (n, item) in outbound.iter().enumerate() {
        outbound::check(item, &at.field("outbound").index(n), problems);
    }
    if let Some(transparent_proxying) = transparent_proxying {
        reachable::check(transparent_proxying, at, problems);
    }
    for n in 0..listeners.len() {
        listener::check(networking, n, &at.field("listeners"), problems);
    }
}

/// Envoy's admin API is on the loopback address, which services and outbounds may use too.
fn check_admin_port(networking: &Networking, port: u32, at: &FieldPath<'_>, problems: &mut Problems) {
    let at = at.field("port");
    let address = &networking.address;
    let taken = |inbound: &Inbound| {
        (inbound.port == port && binds_loopback(inbound.address_or(address)))
            || (inbound.service_port() == port && binds_loopback(inbound.service_address_or(address)))
    };
    problems.require(!networking.inbound.iter().any(taken), &at, "must differ from inbound");
    let called = networking.outbound.iter().any(|call| call.port == port && binds_loopback(call.address()));
    problems.require(!called, &at, "must differ from outbound");
}

fn check_gateway(gateway: &Gateway, networking: &Networking, at: &FieldPath<'_>, problems: &mut Problems) {
    let kind = match gateway.gateway_type() {
        GatewayType::Delegated => "delegated",
        GatewayType::Builtin => "builtin",
    };
    let mut forbid = |field: &str, present: bool| {
        if present {
            problems.add(&at.field(field), format!("{field} cannot be defined for {kind} gateways"));
        }
    };
    forbid("inbound", !networking.inbound.is_empty());
    forbid("listeners", !networking.listeners.is_empty());
    if gateway.gateway_type() == GatewayType::Builtin {
        forbid("outbound", !networking.outbound.is_empty());
    }
    let at = at.field("gateway");
    if let Some(gateway_type) = &gateway.gateway_type {
        gateway_type.check(&at, "type", problems);
    }
    let at = at.field("tags");
    if let Some(protocol) = gateway.tags.get(tags::PROTOCOL).filter(|protocol| *protocol != "tcp") {
        let message = format!("other values than tcp are not allowed, provided value {protocol:?}");
        problems.add(&at.key(tags::PROTOCOL), message);
    }
    tags::check_values(&gateway.tags, &at, problems);
    if has_tags(&gateway.tags) {
        require_service(&gateway.tags, &at, problems);
    }
}

/// The control plane adds the zone tag, so it does not count.
fn has_tags(tags: &BTreeMap<String, String>) -> bool {
    tags.keys().any(|tag| tag != tags::ZONE)
}

fn require_service(tags: &BTreeMap<String, String>, at: &FieldPath<'_>, problems: &mut Problems) {
    if !tags.contains_key(tags::SERVICE) {
        problems.add(at, format!("mandatory tag {:?} is missing", tags::SERVICE));
    }
}

fn check_probes(probes: &Probes, at: &FieldPath<'_>, problems: &mut Problems) {
    check_port(probes.port, &at.field("port"), problems);
    let at = at.field("endpoints");
    for (n, endpoint) in probes.endpoints.iter().enumerate() {
        let at = at.index(n);
        check_port(endpoint.inbound_port, &at.field("inboundPort"), problems);
        for (field, path) in [("inboundPath", &endpoint.inbound_path), ("path", &endpoint.path)] {
            problems.require(uri::parse(path).is_some(), &at.field(field), "should be a valid URL Path");
        }
    }
}
