//! MeshOpenTelemetryBackend: an OpenTelemetry collector that policies for logs, metrics and traces share.

mod check;
mod spec;
mod status;

use crate::{CheckCtx, Kind, Language, Problems, Spec};

pub use spec::{Endpoint, Env, EnvMode, EnvPrecedence, MeshOpenTelemetryBackend, Protocol};
pub use status::MeshOpenTelemetryBackendStatus;

pub static KIND: Kind = Kind::plugin(
    "MeshOpenTelemetryBackend",
    "meshopentelemetrybackends",
    "motb",
    Language::of::<MeshOpenTelemetryBackend>(),
)
.display("Mesh OpenTelemetry Backend")
.without_effect("the policies that reference it (MeshAccessLog, MeshMetric, MeshTrace) are not supported yet");

impl Spec for MeshOpenTelemetryBackend {
    type Status = MeshOpenTelemetryBackendStatus;

    fn check(&self, _: &CheckCtx<'_>, problems: &mut Problems) {
        check::check(self, problems);
    }
}
