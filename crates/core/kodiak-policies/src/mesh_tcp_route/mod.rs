//! MeshTCPRoute: where TCP connections go.

mod check;
mod spec;

use kodiak_model::{CheckCtx, Kind, Language, NoStatus, OldNames, PolicyFacts, Problems, Spec, policy::ConfShape, target_ref};

pub use spec::{MeshTCPRoute, Rule, RuleConf, To};

/// Not in force yet.
pub const POLICY: Option<&dyn crate::Policy> = None;

pub static KIND: Kind = Kind::policy(
    "MeshTCPRoute",
    "meshtcproutes",
    "mtcpr",
    PolicyFacts { to: true, from: false, rules: false, from_as_rules: false, conf: ConfShape::FirstRule, order: 200 },
    Language::of::<MeshTCPRoute>(),
)
.old_names(OldNames::Nothing);

impl Spec for MeshTCPRoute {
    type Status = NoStatus;

    fn check(&self, ctx: &CheckCtx<'_>, problems: &mut Problems) {
        check::check(self, ctx, problems);
    }

    fn warnings(&self, _: &CheckCtx<'_>) -> Vec<String> {
        target_ref::deprecations(self.target_ref.as_ref())
    }
}
