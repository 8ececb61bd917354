//! MeshMultiZoneService: one destination over the MeshServices of several zones.

mod check;
mod spec;
mod status;

use crate::{CheckCtx, Kind, Language, PortSection, Problems, Spec};

pub use spec::{MeshMultiZoneService, Port, Selector};
pub use status::{MatchedMeshService, MeshMultiZoneServiceStatus};

pub static KIND: Kind =
    Kind::plugin("MeshMultiZoneService", "meshmultizoneservices", "mzsvc", Language::of::<MeshMultiZoneService>())
        .global_only();

impl Spec for MeshMultiZoneService {
    type Status = MeshMultiZoneServiceStatus;
    const DESTINATION: bool = true;

    fn check(&self, _: &CheckCtx<'_>, problems: &mut Problems) {
        check::check(self, problems);
    }

    fn ports(&self) -> Vec<PortSection> {
        self.ports.iter().map(|port| PortSection::of(port.port, port.name.as_deref())).collect()
    }
}
