//! Policies that send logs, metrics or traces to MeshOpenTelemetryBackends.

use std::sync::Arc;

use kodiak_policies::otlp_backends::{self, OtlpBackend};
use kodiak_rules::{Policy, policy_index::PolicyKey};

use super::Mesh;

impl Mesh {
    pub(crate) fn set_policy(&mut self, key: &PolicyKey, policy: Option<&Arc<Policy>>) {
        let referring = policy.filter(|policy| otlp_backends::has_references(&policy.body));
        match referring {
            Some(policy) => drop(self.referring.insert(key.clone(), policy.clone())),
            None => drop(self.referring.remove(key)),
        }
        let resolved = referring.map(|policy| self.resolved(policy));
        self.set_resolved_policy(key, resolved.as_ref().or(policy));
    }

    /// Policies whose endpoints stay the same are not touched.
    pub(crate) fn set_otlp_backend(&mut self, name: &Arc<str>, backend: Option<Arc<OtlpBackend>>) {
        self.otlp_backends.set(name, backend);
        let resolved: Vec<_> =
            self.referring.iter().map(|(key, policy)| (key.clone(), self.resolved(policy))).collect();
        for (key, policy) in resolved {
            self.set_resolved_policy(&key, Some(&policy));
        }
    }

    fn resolved(&self, policy: &Arc<Policy>) -> Arc<Policy> {
        let body = self.otlp_backends.resolve(policy.body.clone());
        Arc::new(Policy { body, ..Policy::clone(policy) })
    }
}
