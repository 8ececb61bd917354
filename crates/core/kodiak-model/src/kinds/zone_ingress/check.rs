//! Validation of a ZoneIngress.

use super::{AvailableService, Networking, ZoneIngress};
use crate::{
    FieldPath, Problems,
    address::{binds_loopback, check_host, check_port},
    tags,
};

pub(super) fn check(spec: &ZoneIngress, problems: &mut Problems) {
    let ZoneIngress { zone: _, networking, available_services } = spec;
    let networking = networking.clone().unwrap_or_default();
    check_networking(&networking, &FieldPath::ROOT.field("networking"), problems);
    check_available_services(available_services, problems);
}

fn check_networking(networking: &Networking, at: &FieldPath<'_>, problems: &mut Problems) {
    let Networking { address, advertised_address, port, advertised_port, admin } = networking;
    let clashes = admin.as_ref().is_some_and(|admin| admin.port == *port && binds_loopback(address));
    problems.require(!clashes, &at.field("admin").field("port"), "must differ from port");
    let at_advertised = at.field("advertisedAddress");
    match (advertised_address.as_str(), *advertised_port) {
        ("", 0) => (),
        ("", _) => problems.add(&at_advertised, "has to be defined with advertisedPort"),
        (_, 0) => problems.add(&at.field("advertisedPort"), "has to be defined with advertisedAddress"),
        _ => (),
    }
    // Kuma's error paths repeat `address`.
    if !address.is_empty() {
        check_host(address, &at.field("address").field("address"), problems);
    }
    if !advertised_address.is_empty() {
        check_host(advertised_address, &at_advertised.field("address"), problems);
    }
    check_port(*port, &at.field("port"), problems);
    if *advertised_port != 0 {
        check_port(*advertised_port, &at.field("advertisedPort"), problems);
    }
}

fn check_available_services(services: &[AvailableService], problems: &mut Problems) {
    // Kuma's path omits the `s`.
    let at = FieldPath::ROOT.field("availableService");
    for (n, service) in services.iter().enumerate() {
        let at = at.index(n);
        let at = at.field("tags");
        tags::check_values(&service.tags, &at, problems);
        if !service.tags.contains_key(tags::SERVICE) {
            problems.add(&at, format!("mandatory tag {:?} is missing", tags::SERVICE));
        }
    }
}
