//! MeshTrace: tracing of requests, and the backend of their spans.

mod check;
mod spec;

use kodiak_model::{CheckCtx, Kind, Language, PolicyFacts, Problems, Spec, policy::ConfShape, target_ref};

pub use spec::{
    Backend, BackendType, Conf, DatadogBackend, HeaderTag, MeshTrace, OpenTelemetryBackend, Sampling, Tag,
    ZipkinApiVersion, ZipkinBackend,
};

use crate::policy_status::PolicyStatus;

/// Not implemented: without effect on proxies.
pub const POLICY: Option<&dyn crate::Policy> = None;

pub static KIND: Kind = Kind::policy(
    "MeshTrace",
    "meshtraces",
    "mtr",
    PolicyFacts { to: false, from: false, rules: false, from_as_rules: false, conf: ConfShape::Default, order: 700 },
    Language::of::<MeshTrace>(),
)
.without_effect(crate::NOT_SUPPORTED_YET);

impl Spec for MeshTrace {
    type Status = PolicyStatus;

    fn check(&self, ctx: &CheckCtx<'_>, problems: &mut Problems) {
        check::check(self, ctx, problems);
    }

    fn warnings(&self, _: &CheckCtx<'_>) -> Vec<String> {
        target_ref::deprecations(self.target_ref.as_ref())
    }
}
