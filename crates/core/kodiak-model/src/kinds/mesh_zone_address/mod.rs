//! MeshZoneAddress: a public address of the ingress of a zone, for one mesh.

mod check;
mod spec;

use crate::{CheckCtx, Kind, Language, NoStatus, Problems, Spec};

pub use spec::MeshZoneAddress;

pub static KIND: Kind = Kind::plugin("MeshZoneAddress", "meshzoneaddresses", "mza", Language::of::<MeshZoneAddress>())
    .without_effect("several zones are not supported yet");

impl Spec for MeshZoneAddress {
    type Status = NoStatus;

    fn check(&self, _: &CheckCtx<'_>, problems: &mut Problems) {
        check::check(self, problems);
    }
}
