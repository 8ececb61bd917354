//! MeshIdentity: the SPIFFE IDs of proxies, and the provider that issues their certificates.

mod check;
mod spec;
mod spiffe_id;

use serde::{Deserialize, Serialize};

use crate::{CheckCtx, Condition, Kind, Language, Problems, Spec, Status};

pub use spec::{
    Autogenerate, Bundled, Ca, CertificateParameters, Extension, MeshIdentity, MeshTrustCreation, Provider,
    ProviderType, Selector, SpiffeId, Spire, SpireAgent,
};
pub use spiffe_id::{
    DEFAULT_PATH_ON_KUBERNETES, DEFAULT_PATH_ON_UNIVERSAL, DEFAULT_TRUST_DOMAIN, FUNCTIONS, PATH_FIELDS,
    TRUST_DOMAIN_FIELDS,
};

pub static KIND: Kind = Kind::plugin("MeshIdentity", "meshidentities", "mid", Language::of::<MeshIdentity>());

impl Spec for MeshIdentity {
    type Status = MeshIdentityStatus;

    fn check(&self, _: &CheckCtx<'_>, problems: &mut Problems) {
        check::check(self, problems);
    }

    fn warnings(&self, _: &CheckCtx<'_>) -> Vec<String> {
        self.spiffe_id.as_ref().map(spiffe_id::warnings).unwrap_or_default()
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MeshIdentityStatus {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

impl Status for MeshIdentityStatus {
    const PRESENT: bool = true;
}
