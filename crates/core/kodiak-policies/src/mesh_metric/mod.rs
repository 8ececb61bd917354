//! MeshMetric: metrics of proxies and applications, and their backends.

mod check;
mod proxy_metrics;
mod spec;

use kodiak_model::{CheckCtx, Kind, Language, PolicyFacts, Problems, Spec, policy::ConfShape, target_ref};

pub use spec::{
    Application, Backend, BackendType, Conf, MeshMetric, OpenTelemetryBackend, Profile, ProfileName, Profiles,
    PrometheusBackend, PrometheusTls, Selector, SelectorType, Sidecar, TlsMode,
};

pub use proxy_metrics::{
    ApplicationEndpoint, MetricCollector, PrometheusEndpoint, ProxyMetrics, metric_labels, service,
};

use crate::Policy;
use crate::policy_status::PolicyStatus;

pub const POLICY: Option<&dyn Policy> = Some(&Metrics);

pub static KIND: Kind = Kind::policy(
    "MeshMetric",
    "meshmetrics",
    "mm",
    PolicyFacts { to: false, from: false, rules: false, from_as_rules: false, conf: ConfShape::Default, order: 1500 },
    Language::of::<MeshMetric>(),
);

/// Has no hooks: listeners and clusters for metrics are resources of their own.
struct Metrics;

impl Policy for Metrics {
    fn kind(&self) -> &'static Kind {
        &KIND
    }
}

impl Spec for MeshMetric {
    type Status = PolicyStatus;

    fn check(&self, ctx: &CheckCtx<'_>, problems: &mut Problems) {
        check::check(self, ctx, problems);
    }

    fn warnings(&self, _: &CheckCtx<'_>) -> Vec<String> {
        target_ref::deprecations(self.target_ref.as_ref())
    }
}
