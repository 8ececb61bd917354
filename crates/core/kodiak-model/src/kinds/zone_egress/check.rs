//! What is wrong with it.

use super::{Networking, ZoneEgress};
use crate::{
    FieldPath, Problems,
    address::{check_host, check_port, takes_loopback},
};

pub(super) fn check(spec: &ZoneEgress, problems: &mut Problems) {
    let ZoneEgress { zone: _, networking } = spec;
    let Networking { address, port, admin } = networking.clone().unwrap_or_default();
    let at = FieldPath::ROOT.field("networking");
    let clashes = admin.is_some_and(|admin| admin.port == port && takes_loopback(&address));
    problems.require(!clashes, &at.field("admin").field("port"), "must differ from port");
    // Clients know the path of these problems with another `address` behind.
    if !address.is_empty() {
        check_host(&address, &at.field("address").field("address"), problems);
    }
    check_port(port, &at.field("port"), problems);
}
