//! MeshHealthCheck: active health checks of endpoints.

mod check;
mod spec;

use kodiak_model::{CheckCtx, Kind, Language, NoStatus, PolicyFacts, Problems, Spec, policy::ConfShape, target_ref};

pub use spec::{Conf, GrpcHealthCheck, HttpHealthCheck, MeshHealthCheck, TcpHealthCheck};

/// Not implemented: without effect on proxies.
pub const POLICY: Option<&dyn crate::Policy> = None;

pub static KIND: Kind = Kind::policy(
    "MeshHealthCheck",
    "meshhealthchecks",
    "mhc",
    PolicyFacts { to: true, from: false, rules: false, from_as_rules: false, conf: ConfShape::Default, order: 1200 },
    Language::of::<MeshHealthCheck>(),
);

impl Spec for MeshHealthCheck {
    type Status = NoStatus;

    fn check(&self, _: &CheckCtx<'_>, problems: &mut Problems) {
        check::check(self, problems);
    }

    fn warnings(&self, _: &CheckCtx<'_>) -> Vec<String> {
        target_ref::deprecations(self.target_ref.as_ref())
    }
}
