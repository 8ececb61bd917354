//! MeshTimeout: how long connections, requests and streams may take.

mod check;
mod spec;

use kodiak_model::{CheckCtx, Kind, Language, NoStatus, PolicyFacts, Problems, Spec, policy::ConfShape, target_ref};

use crate::from_to::is_used;

pub use spec::{Conf, Http, MeshTimeout};

/// Not in force yet.
pub const POLICY: Option<&dyn crate::Policy> = None;

pub static KIND: Kind = Kind::policy(
    "MeshTimeout",
    "meshtimeouts",
    "mt",
    PolicyFacts { to: true, from: true, rules: true, from_as_rules: true, conf: ConfShape::Default, order: 1000 },
    Language::of::<MeshTimeout>(),
);

impl Spec for MeshTimeout {
    type Status = NoStatus;

    fn check(&self, ctx: &CheckCtx<'_>, problems: &mut Problems) {
        check::check(self, ctx, problems);
    }

    fn warnings(&self, _: &CheckCtx<'_>) -> Vec<String> {
        let mut warnings = Vec::new();
        if is_used(self.from.as_ref()) {
            warnings.push("'from' field is deprecated, use 'rules' instead".to_owned());
        }
        warnings.extend(target_ref::deprecations(self.target_ref.as_ref()));
        warnings
    }
}
