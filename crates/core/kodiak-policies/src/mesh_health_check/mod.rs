//! MeshHealthCheck: active health checks of endpoints.

mod check;
mod envoy;
mod spec;

use kodiak_model::{
    CheckCtx, Kind, Language, NoStatus, PolicyFacts, Problems, Spec, policy, policy::ConfShape, target_ref,
};

pub use spec::{Conf, GrpcHealthCheck, HttpHealthCheck, MeshHealthCheck, TcpHealthCheck};

use crate::Policy;
use crate::target::Upstream;

pub const POLICY: Option<&dyn Policy> = Some(&HealthChecks);

pub static KIND: Kind = Kind::policy(
    "MeshHealthCheck",
    "meshhealthchecks",
    "mhc",
    PolicyFacts { to: true, from: false, rules: false, from_as_rules: false, conf: ConfShape::Default, order: 1200 },
    Language::of::<MeshHealthCheck>(),
);

/// Applies the policy to proxies.
struct HealthChecks;

impl Policy for HealthChecks {
    fn kind(&self) -> &'static Kind {
        &KIND
    }

    fn cluster(&self, conf: &policy::Conf, cluster: &mut Upstream) {
        envoy::cluster(&conf.read(), cluster);
    }
}

impl Spec for MeshHealthCheck {
    type Status = NoStatus;

    fn check(&self, _: &CheckCtx<'_>, problems: &mut Problems) {
        check::check(self, problems);
    }

    fn warnings(&self, _: &CheckCtx<'_>) -> Vec<String> {
        target_ref::deprecations(self.target_ref.as_ref())
    }
}
