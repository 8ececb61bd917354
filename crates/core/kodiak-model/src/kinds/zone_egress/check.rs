//! Validation of a ZoneEgress.

use super::{Networking, ZoneEgress};
use crate::{
    FieldPath, Problems,
    address::{binds_loopback, check_host, check_port},
};

pub(super) fn check(spec: &ZoneEgress, problems: &mut Problems) {
    let ZoneEgress { zone: _, networking } = spec;
    let Networking { address, port, admin } = networking.clone().unwrap_or_default();
    let at = FieldPath::ROOT.field("networking");
    let clashes = admin.is_some_and(|admin| admin.port == port && binds_loopback(&address));
    problems.require(!clashes, &at.field("admin").field("port"), "must differ from port");
    // Kuma's error paths repeat `address`.
    if !address.is_empty() {
        check_host(&address, &at.field("address").field("address"), problems);
    }
    check_port(port, &at.field("port"), problems);
}
