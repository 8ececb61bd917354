//! Mesh: an isolated set of proxies, and the settings they share.

mod check;
mod membership;
mod spec;
mod warnings;

use crate::{CheckCtx, Kind, Language, NoStatus, Problems, Scope, Spec};

pub use check::check_metrics_backend;
pub use membership::membership_fault;
pub use spec::{
    Aggregate, BackendConf, BuiltinCa, BuiltinCaCert, DatadogTracing, DpCert, EnvoyMetrics, FileLogging, Logging,
    LoggingBackend, Mesh, MeshConstraints, MeshServices, MeshServicesMode, Metrics, MetricsBackend, Mtls, MtlsBackend,
    MtlsMode, Networking, Outbound, Prometheus, PrometheusTls, PrometheusTlsMode, ProvidedCa, ProxyConstraints,
    RootChain, Rotation, Routing, TagRule, TcpLogging, Tracing, TracingBackend, ZipkinTracing, parse_period,
};

pub static KIND: Kind = Kind::legacy("Mesh", "meshes", Scope::Global, Language::of::<Mesh>()).short("m").global_only();

const NAME_MAX: usize = 63;

impl Spec for Mesh {
    type Status = NoStatus;

    fn check(&self, _: &CheckCtx<'_>, problems: &mut Problems) {
        check::check(self, problems);
    }

    fn warnings(&self, _: &CheckCtx<'_>) -> Vec<String> {
        warnings::warnings(self)
    }
}

impl Mesh {
    /// The CA backend in use; `None` when mTLS is disabled.
    pub fn enabled_backend(&self) -> Option<&MtlsBackend> {
        self.mtls.as_ref()?.enabled_backend()
    }

    pub fn mesh_services_mode(&self) -> MeshServicesMode {
        self.mesh_services.as_ref().map_or(MeshServicesMode::Disabled, MeshServices::mode)
    }

    /// Whether proxies pass through traffic to destinations outside the mesh.
    pub fn passthrough(&self) -> bool {
        let outbound = self.networking.as_ref().and_then(|networking| networking.outbound.as_ref());
        outbound.and_then(|outbound| outbound.passthrough).unwrap_or(true)
    }

    /// Whether a new mesh starts without policies of this kind.
    pub fn skips_initial_policy(&self, kind: &str) -> bool {
        self.skip_creating_initial_policies.iter().any(|skipped| skipped == "*" || skipped == kind)
    }

    /// Writes the defaults of metrics backends into the stored object.
    pub fn fill_defaults(&mut self) {
        for backend in self.metrics.iter_mut().flat_map(|metrics| &mut metrics.backends) {
            if backend.backend_type == MetricsBackend::PROMETHEUS
                && let Ok(mut prometheus) = BackendConf::read::<Prometheus>(backend.conf.as_ref())
            {
                prometheus.fill_defaults();
                backend.conf = Some(BackendConf::of(&prometheus));
            }
        }
    }
}

/// Violation in the name of a new mesh, which is part of other names with a length limit.
pub fn new_name_fault(name: &str) -> Option<String> {
    (name.len() > NAME_MAX).then(|| format!("cannot be longer than {NAME_MAX} characters"))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn mesh(spec: Value) -> Mesh {
        serde_json::from_value(spec).unwrap()
    }

    #[test]
    fn prometheus_defaults_are_stored() {
        let tags = json!({ "kuma.io/service": "dataplane-metrics" });
        for (written, stored) in [
            (json!({}), json!({ "port": 5670, "path": "/metrics", "tags": tags, "tls": {} })),
            (
                json!({ "port": "1234", "skipMTLS": true }),
                json!({ "port": 1234, "path": "/metrics", "tags": tags, "skipMTLS": true, "tls": { "mode": "disabled" } }),
            ),
            (
                json!({ "path": "/m", "tags": { "a": "b" }, "tls": { "mode": "providedTLS" } }),
                json!({ "port": 5670, "path": "/m", "tags": { "a": "b" }, "tls": { "mode": "providedTLS" } }),
            ),
        ] {
            let mut mesh = mesh(json!({ "metrics": { "backends": [{ "type": "prometheus", "conf": written }] } }));
            mesh.fill_defaults();
            assert_eq!(serde_json::to_value(&mesh).unwrap()["metrics"]["backends"][0]["conf"], stored);
        }
    }

    #[test]
    fn a_star_skips_every_policy() {
        let some = mesh(json!({ "skipCreatingInitialPolicies": ["MeshRetry"] }));
        assert!(some.skips_initial_policy("MeshRetry") && !some.skips_initial_policy("MeshTimeout"));
        assert!(mesh(json!({ "skipCreatingInitialPolicies": ["*"] })).skips_initial_policy("MeshTimeout"));
    }

    #[test]
    fn only_a_backend_that_exists_is_enabled() {
        let backends = json!([{ "name": "ca-1", "type": "builtin" }]);
        let enabled = |name: &str| {
            let mesh = mesh(json!({ "mtls": { "enabledBackend": name, "backends": backends } }));
            mesh.enabled_backend().map(|backend| backend.name.clone())
        };
        assert_eq!(enabled("ca-1").as_deref(), Some("ca-1"));
        assert_eq!(enabled("ca-2"), None);
        assert_eq!(enabled(""), None);
    }

    #[test]
    fn debug_output_hides_backend_settings() {
        let conf = json!({ "key": { "inlineString": "the key" } });
        let mesh = mesh(json!({ "mtls": { "backends": [{ "name": "ca-1", "conf": conf }] } }));
        assert!(!format!("{mesh:?}").contains("the key"));
    }
}
