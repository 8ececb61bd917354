//! MeshTrust: the root certificates of a trust domain.

mod check;
mod pem;
mod spec;

use serde::{Deserialize, Serialize};

use crate::{CheckCtx, Kind, Language, Problems, Spec, Status};

pub use spec::{CaBundle, CaBundleType, MeshTrust, Origin, Pem};

pub static KIND: Kind = Kind::plugin("MeshTrust", "meshtrusts", "mtrust", Language::of::<MeshTrust>());

impl Spec for MeshTrust {
    type Status = MeshTrustStatus;

    fn check(&self, _: &CheckCtx<'_>, problems: &mut Problems) {
        check::check(self, problems);
    }

    fn warnings(&self, _: &CheckCtx<'_>) -> Vec<String> {
        let written = self.origin.as_ref();
        written.map(|_| "setting spec.origin field is deprecated".to_owned()).into_iter().collect()
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MeshTrustStatus {
    /// The MeshIdentity that the control plane created it for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub origin: Option<Origin>,
}

impl Status for MeshTrustStatus {
    const PRESENT: bool = true;
}
