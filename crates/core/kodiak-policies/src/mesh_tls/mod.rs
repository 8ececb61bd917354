//! MeshTLS: TLS mode of inbounds, TLS versions and ciphers.

mod check;
mod spec;

use kodiak_model::{CheckCtx, Kind, Language, NoStatus, PolicyFacts, Problems, Spec, policy::ConfShape, target_ref};

pub use spec::{Conf, MeshTLS, Mode, Rule, TlsCipher};

use crate::from_to;

/// Not implemented: without effect on proxies.
pub const POLICY: Option<&dyn crate::Policy> = None;

pub static KIND: Kind = Kind::policy(
    "MeshTLS",
    "meshtlses",
    "mtls",
    PolicyFacts { to: false, from: true, rules: true, from_as_rules: true, conf: ConfShape::Default, order: 300 },
    Language::of::<MeshTLS>(),
)
.without_effect(crate::NOT_SUPPORTED_YET);

impl Spec for MeshTLS {
    type Status = NoStatus;

    fn check(&self, _: &CheckCtx<'_>, problems: &mut Problems) {
        check::check(self, problems);
    }

    fn warnings(&self, _: &CheckCtx<'_>) -> Vec<String> {
        let mut warnings = Vec::new();
        if from_to::is_used(self.from.as_ref()) {
            warnings.push("'from' field is deprecated, use 'rules' instead".to_owned());
        }
        warnings.extend(target_ref::deprecations(self.target_ref.as_ref()));
        warnings
    }
}
