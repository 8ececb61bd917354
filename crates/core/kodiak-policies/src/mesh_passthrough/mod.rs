//! MeshPassthrough: destinations outside the mesh that proxies may reach.

mod check;
mod spec;

use kodiak_model::{CheckCtx, Kind, Language, NoStatus, PolicyFacts, Problems, Spec, policy::ConfShape, target_ref};

pub use spec::{Conf, Match, MatchType, MeshPassthrough, PassthroughMode, Protocol};

/// Not implemented: without effect on proxies.
pub const POLICY: Option<&dyn crate::Policy> = None;

pub static KIND: Kind = Kind::policy(
    "MeshPassthrough",
    "meshpassthroughs",
    "mp",
    PolicyFacts { to: false, from: false, rules: false, from_as_rules: false, conf: ConfShape::Default, order: 500 },
    Language::of::<MeshPassthrough>(),
)
.without_effect(crate::NOT_SUPPORTED_YET);

impl Spec for MeshPassthrough {
    type Status = NoStatus;

    fn check(&self, _: &CheckCtx<'_>, problems: &mut Problems) {
        check::check(self, problems);
    }

    fn warnings(&self, _: &CheckCtx<'_>) -> Vec<String> {
        target_ref::deprecations(self.target_ref.as_ref())
    }
}
