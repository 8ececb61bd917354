//! MeshInsight: counts of the proxies, services and resources of a mesh.

mod spec;

use crate::{Access, CheckCtx, Kind, Language, NoStatus, Problems, Scope, Spec};

pub use spec::{DataplaneStat, DataplanesByType, DpVersions, MeshInsight, MtlsStat, ResourceStat, ServiceStat};

pub static KIND: Kind = Kind::legacy("MeshInsight", "mesh-insights", Scope::Global, Language::of::<MeshInsight>())
    .access(Access::ReadOnly)
    .global_only();

impl Spec for MeshInsight {
    type Status = NoStatus;

    fn check(&self, _: &CheckCtx<'_>, _: &mut Problems) {}
}
