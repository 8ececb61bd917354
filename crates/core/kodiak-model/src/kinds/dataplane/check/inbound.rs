//! Validation of an inbound.

use std::collections::BTreeMap;

use crate::{
    FieldPath, Problems, ProtoDuration, Protocol,
    address::{check_ip, check_port, is_ip},
    kinds::dataplane::{Inbound, ServiceProbe},
    tags,
};

pub(super) fn check(inbound: &Inbound, networking_address: &str, at: &FieldPath<'_>, problems: &mut Problems) {
    let Inbound {
        port,
        service_port,
        service_address: _,
        address,
        tags,
        health: _,
        service_probe,
        state,
        name: _,
        protocol,
    } = inbound;
    check_port(*port, &at.field("port"), problems);
    if *service_port != 0 {
        check_port(*service_port, &at.field("servicePort"), problems);
    }
    check_service_address(inbound, networking_address, &at.field("serviceAddress"), problems);
    check_ip(address, &at.field("address"), problems);
    check_tags(tags, &at.field("tags"), problems);
    if !protocol.is_empty() && Protocol::parse(protocol).is_none() {
        let message = format!("has an invalid value {protocol:?}. {}", Protocol::ALLOWED);
        problems.add(&at.field("protocol"), message);
    }
    if let Some(state) = state {
        state.check(at, "state", problems);
    }
    if let Some(probe) = service_probe {
        check_service_probe(probe, &at.field("serviceProbe"), problems);
    }
}

/// A proxy that forwards to itself would loop forever.
fn check_service_address(inbound: &Inbound, networking_address: &str, at: &FieldPath<'_>, problems: &mut Problems) {
    let service_address = inbound.service_address.as_str();
    if service_address.is_empty() {
        return;
    }
    problems.require(is_ip(service_address), at, "serviceAddress has to be valid IP address");
    let same_address = [networking_address, &inbound.address].contains(&service_address);
    let itself = same_address && inbound.service_port() == inbound.port;
    problems.require(!itself, at, "serviceAddress and servicePort has to differ from address and port");
}

fn check_tags(tags: &BTreeMap<String, String>, at: &FieldPath<'_>, problems: &mut Problems) {
    if let Some(protocol) = tags.get(tags::PROTOCOL)
        && Protocol::parse(protocol).is_none()
    {
        let (tag, allowed) = (tags::PROTOCOL, Protocol::ALLOWED);
        problems.add(&at.key(tag), format!("tag {tag:?} has an invalid value {protocol:?}. {allowed}"));
    }
    tags::check_values(tags, at, problems);
    if super::has_tags(tags) && !tags.contains_key(tags::SERVICE) {
        problems.add(&at.key(tags::SERVICE), "tag has to exist");
    }
}

fn check_service_probe(probe: &ServiceProbe, at: &FieldPath<'_>, problems: &mut Problems) {
    let ServiceProbe { interval, timeout, unhealthy_threshold, healthy_threshold, tcp: _ } = probe;
    let mut positive =
        |holds: bool, field: &str| problems.require(holds, &at.field(field), "must have a positive value");
    let above_zero = |time: &Option<ProtoDuration>| time.is_none_or(|time| time.nanos() > 0);
    positive(above_zero(interval), "interval");
    positive(above_zero(timeout), "timeout");
    positive(*unhealthy_threshold != Some(0), "unhealthyThreshold");
    positive(*healthy_threshold != Some(0), "healthyThreshold");
}
