//! ServiceInsight: health of the services of a mesh, by `kuma.io/service`.
//!
//! One object for each mesh is stored, named [`name_for`]; the API shows one for each service.

mod check;
mod spec;

use crate::{Access, CheckCtx, Kind, Language, NoStatus, Problems, Scope, Spec};

pub use spec::{Service, ServiceDataplanes, ServiceInsight, ServiceStatus, ServiceType};

pub static KIND: Kind =
    Kind::legacy("ServiceInsight", "service-insights", Scope::Mesh, Language::of::<ServiceInsight>())
        .access(Access::ReadOnly)
        .global_only();

impl Spec for ServiceInsight {
    type Status = NoStatus;

    fn check(&self, _: &CheckCtx<'_>, problems: &mut Problems) {
        check::check(self, problems);
    }
}

/// Name of the object that holds all services of a mesh.
pub fn name_for(mesh: &str) -> String {
    format!("all-services-{mesh}")
}
