//! Validation of a listener.

use crate::{
    FieldPath, Problems,
    address::{check_ip, check_port},
    kinds::dataplane::{Listener, ListenerType, Networking},
};

pub(super) fn check(networking: &Networking, n: usize, at: &FieldPath<'_>, problems: &mut Problems) {
    let (before, rest) = networking.listeners.split_at(n);
    let Some(listener) = rest.first() else { return };
    let at = at.index(n);
    let typed = listener.listener_type() != ListenerType::Unspecified;
    problems.require(typed, &at.field("type"), "type must be ZoneIngress or ZoneEgress");
    check_ip(&listener.address, &at.field("address"), problems);
    check_port(listener.port, &at.field("port"), problems);
    if let Some(state) = &listener.state {
        state.check(&at, "state", problems);
    }
    check_unique(listener, before, networking, &at, problems);
}

/// Policies select listeners by name, and only one listener can bind a port.
fn check_unique(
    listener: &Listener,
    before: &[Listener],
    networking: &Networking,
    at: &FieldPath<'_>,
    problems: &mut Problems,
) {
    let same_name = |other: &Listener| !listener.name.is_empty() && other.section_name() == listener.name;
    if let Some(n) = before.iter().position(same_name) {
        let message = format!("must be unique; networking.listeners[{n}] has the same name");
        problems.add(&at.field("name"), message);
    }
    let address = networking.address.as_str();
    let place = (listener.address_or(address), listener.port);
    let message = |field, n| format!("must be unique; networking.{field}[{n}] has the same address and port");
    if let Some(n) = before.iter().position(|other| (other.address_or(address), other.port) == place) {
        problems.add(&at.field("port"), message("listeners", n));
    }
    if let Some(n) = networking.inbound.iter().position(|other| (other.address_or(address), other.port) == place) {
        problems.add(&at.field("port"), message("inbound", n));
    }
}
