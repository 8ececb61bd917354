//! MeshMetric: metrics of proxies and applications, and their backends.

mod check;
mod spec;

use kodiak_model::{CheckCtx, Kind, Language, PolicyFacts, Problems, Spec, policy::ConfShape, target_ref};

pub use spec::{
    Application, Backend, BackendType, Conf, MeshMetric, OpenTelemetryBackend, Profile, ProfileName, Profiles,
    PrometheusBackend, PrometheusTls, Selector, SelectorType, Sidecar, TlsMode,
};

use crate::policy_status::PolicyStatus;

/// Not implemented: without effect on proxies.
pub const POLICY: Option<&dyn crate::Policy> = None;

pub static KIND: Kind = Kind::policy(
    "MeshMetric",
    "meshmetrics",
    "mm",
    PolicyFacts { to: false, from: false, rules: false, from_as_rules: false, conf: ConfShape::Default, order: 1500 },
    Language::of::<MeshMetric>(),
)
.without_effect(crate::NOT_SUPPORTED_YET);

impl Spec for MeshMetric {
    type Status = PolicyStatus;

    fn check(&self, ctx: &CheckCtx<'_>, problems: &mut Problems) {
        check::check(self, ctx, problems);
    }

    fn warnings(&self, _: &CheckCtx<'_>) -> Vec<String> {
        target_ref::deprecations(self.target_ref.as_ref())
    }
}
