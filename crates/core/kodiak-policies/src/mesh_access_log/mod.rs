//! MeshAccessLog: access logs of proxies and their backends.

mod check;
mod spec;

use kodiak_model::{CheckCtx, Kind, Language, PolicyFacts, Problems, Spec, policy::ConfShape, target_ref};

pub use spec::{
    Attribute, Backend, BackendType, Conf, FileBackend, Format, FormatType, JsonField, MeshAccessLog,
    OpenTelemetryBackend, TcpBackend,
};

use crate::{from_to::is_used, policy_status::PolicyStatus};

/// Not implemented: without effect on proxies.
pub const POLICY: Option<&dyn crate::Policy> = None;

pub static KIND: Kind = Kind::policy(
    "MeshAccessLog",
    "meshaccesslogs",
    "mal",
    PolicyFacts { to: true, from: true, rules: true, from_as_rules: true, conf: ConfShape::Default, order: 600 },
    Language::of::<MeshAccessLog>(),
)
.without_effect(crate::NOT_SUPPORTED_YET);

impl Spec for MeshAccessLog {
    type Status = PolicyStatus;

    fn check(&self, _: &CheckCtx<'_>, problems: &mut Problems) {
        check::check(self, problems);
    }

    fn warnings(&self, _: &CheckCtx<'_>) -> Vec<String> {
        let mut warnings = target_ref::deprecations(self.target_ref.as_ref());
        if is_used(self.from.as_ref()) {
            warnings.push("'from' field is deprecated, use 'rules' instead".to_owned());
        }
        warnings
    }
}
