//! Validation of a MeshZoneAddress.

use super::MeshZoneAddress;
use crate::{FieldPath, Problems, address::check_host};

/// The schema has the range of the port.
pub(super) fn check(spec: &MeshZoneAddress, problems: &mut Problems) {
    let MeshZoneAddress { address, port: _ } = spec;
    check_host(address, &FieldPath::SPEC.field("address"), problems);
}
