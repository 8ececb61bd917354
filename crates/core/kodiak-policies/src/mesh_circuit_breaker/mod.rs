//! MeshCircuitBreaker: connection limits and outlier detection for destinations.

mod check;
mod envoy;
mod spec;

use kodiak_model::{
    CheckCtx, Kind, Language, NoStatus, PolicyFacts, Problems, Spec, policy, policy::ConfShape, target_ref,
};

pub use spec::{
    Conf, ConnectionLimits, ConsecutiveFailures, Detectors, FailurePercentage, MeshCircuitBreaker, OutlierDetection,
    Rule, SuccessRate,
};

use crate::target::{Inbound, Upstream};
use crate::{Entry, Policy, from_to};

pub const POLICY: Option<&dyn Policy> = Some(&CircuitBreakers);

pub static KIND: Kind = Kind::policy(
    "MeshCircuitBreaker",
    "meshcircuitbreakers",
    "mcb",
    PolicyFacts { to: true, from: true, rules: true, from_as_rules: true, conf: ConfShape::Default, order: 1300 },
    Language::of::<MeshCircuitBreaker>(),
);

/// Applies the policy to proxies.
struct CircuitBreakers;

impl Policy for CircuitBreakers {
    fn kind(&self) -> &'static Kind {
        &KIND
    }

    fn inbound(&self, entries: &[Entry], inbound: &mut Inbound<'_>) {
        envoy::inbound(entries, inbound);
    }

    fn cluster(&self, conf: &policy::Conf, cluster: &mut Upstream) {
        envoy::cluster(&conf.read(), cluster);
    }
}

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
