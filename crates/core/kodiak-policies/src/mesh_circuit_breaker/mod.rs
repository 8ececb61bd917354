//! MeshCircuitBreaker: how much a destination is asked to bear, and which of its endpoints are left alone for a while.

mod check;
mod spec;

use kodiak_model::{CheckCtx, Kind, Language, NoStatus, PolicyFacts, Problems, Spec, policy::ConfShape, target_ref};

pub use spec::{
    Conf, ConnectionLimits, ConsecutiveFailures, Detectors, FailurePercentage, MeshCircuitBreaker, OutlierDetection,
    Rule, SuccessRate,
};

use crate::from_to;

/// Not in force yet.
pub const POLICY: Option<&dyn crate::Policy> = None;

pub static KIND: Kind = Kind::policy(
    "MeshCircuitBreaker",
    "meshcircuitbreakers",
    "mcb",
    PolicyFacts { to: true, from: true, rules: true, from_as_rules: true, conf: ConfShape::Default, order: 1300 },
    Language::of::<MeshCircuitBreaker>(),
);

impl Spec for MeshCircuitBreaker {
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
