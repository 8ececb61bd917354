//! MeshExternalService: a destination outside the mesh.

mod check;
mod spec;
mod status;

use crate::{CheckCtx, Kind, Language, PortSection, Problems, Spec};

pub use spec::{
    Endpoint, Match, MatchProtocol, MatchType, MeshExternalService, SanMatch, SanMatchType, Source, Tls, Verification,
    VerificationMode,
};
pub use status::MeshExternalServiceStatus;

pub static KIND: Kind =
    Kind::plugin("MeshExternalService", "meshexternalservices", "extsvc", Language::of::<MeshExternalService>());

impl Spec for MeshExternalService {
    type Status = MeshExternalServiceStatus;
    const DESTINATION: bool = true;

    fn check(&self, ctx: &CheckCtx<'_>, problems: &mut Problems) {
        check::check(self, ctx, problems);
    }

    fn ports(&self) -> Vec<PortSection> {
        vec![PortSection::of(self.matching.port, None)]
    }
}
