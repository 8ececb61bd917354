//! ServiceInsight: how the services of a mesh are doing, by the values of `kuma.io/service`.
//!
//! One object for each mesh is stored, named [`name_for`]; the API shows one for each service.

mod spec;

use crate::{Access, CheckCtx, FieldPath, Kind, Language, NoStatus, Problems, Scope, Spec};

pub use spec::{Service, ServiceDataplanes, ServiceInsight, ServiceStatus, ServiceType};

pub static KIND: Kind =
    Kind::legacy("ServiceInsight", "service-insights", Scope::Mesh, Language::of::<ServiceInsight>())
        .access(Access::ReadOnly)
        .global_only();

impl Spec for ServiceInsight {
    type Status = NoStatus;

    fn check(&self, _: &CheckCtx<'_>, problems: &mut Problems) {
        let at = FieldPath::ROOT.field("services");
        for (name, service) in &self.services {
            let at = at.key(name);
            if let Some(status) = &service.status {
                status.check(&at, "status", problems);
            }
            if let Some(service_type) = &service.service_type {
                service_type.check(&at, "serviceType", problems);
            }
        }
    }
}

/// The name of the one object that holds the services of a mesh.
pub fn name_for(mesh: &str) -> String {
    format!("all-services-{mesh}")
}
