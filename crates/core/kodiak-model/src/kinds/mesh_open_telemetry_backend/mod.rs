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
.display("Mesh OpenTelemetry Backend");

const VARIABLES: &str = "spec.env has no effect: Envoy does not read the OTEL_EXPORTER_OTLP_* variables of the proxy";

impl Spec for MeshOpenTelemetryBackend {
    type Status = MeshOpenTelemetryBackendStatus;

    fn check(&self, _: &CheckCtx<'_>, problems: &mut Problems) {
        check::check(self, problems);
    }

    fn warnings(&self, _: &CheckCtx<'_>) -> Vec<String> {
        let uses_variables =
            self.env.as_ref().is_some_and(|env| !env.mode.as_ref().is_some_and(|mode| mode.is(EnvMode::Disabled)));
        uses_variables.then(|| VARIABLES.to_owned()).into_iter().collect()
    }
}
