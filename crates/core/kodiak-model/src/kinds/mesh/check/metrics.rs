//! Validation of `metrics`.

use std::collections::BTreeSet;

use regex_lite::Regex;

use super::check_unique_names;
use crate::{
    FieldPath, Problems,
    kinds::mesh::{BackendConf, Metrics, MetricsBackend, Prometheus},
};

pub(super) fn check(metrics: &Metrics, at: &FieldPath<'_>, problems: &mut Problems) {
    let at_backends = at.field("backends");
    check_unique_names(metrics.backends.iter().map(|backend| backend.name.as_str()), &at_backends, problems);
    for (n, backend) in metrics.backends.iter().enumerate() {
        check_metrics_backend(backend, &at_backends.index(n), problems);
    }
    let found = metrics.enabled_backend.is_empty() || metrics.enabled_backend().is_some();
    problems.require(found, &at.field("enabledBackend"), "has to be set to one of the backends in the mesh");
}

/// Metrics backend of a mesh, or of a single proxy.
pub fn check_metrics_backend(backend: &MetricsBackend, at: &FieldPath<'_>, problems: &mut Problems) {
    let MetricsBackend { name: _, backend_type, conf } = backend;
    if backend_type != MetricsBackend::PROMETHEUS {
        let known = MetricsBackend::PROMETHEUS;
        problems.add(&at.field("type"), format!("unknown backend type. Available backends: {known:?}"));
        return;
    }
    let at = at.field("conf");
    match BackendConf::read::<Prometheus>(conf.as_ref()) {
        Ok(prometheus) => check_prometheus(&prometheus, &at, problems),
        Err(error) => problems.add(&at, format!("could not parse config: {error}")),
    }
}

fn check_prometheus(prometheus: &Prometheus, at: &FieldPath<'_>, problems: &mut Problems) {
    let consistent = !prometheus.contradicts_itself();
    problems.require(consistent, at, "skipMTLS and tls configuration cannot be defined together");
    let filter = prometheus.envoy.as_ref().map_or("", |envoy| envoy.filter_regex.as_str());
    // Envoy supports Unicode classes, which this regex engine is built without.
    if let Some(error) = Regex::new(filter).err().filter(|_| !filter.contains(r"\p") && !filter.contains(r"\P")) {
        let at = at.field("envoy");
        problems.add(&at.field("filterRegex"), format!("provided regexp isn't correct: {error}"));
    }
    let at = at.field("aggregate");
    let mut used = BTreeSet::new();
    for (n, one) in prometheus.aggregate.iter().enumerate() {
        if !used.insert(&one.name) {
            let at = at.index(n);
            let message = format!("duplicate entry: {}, values have to be unique", one.name);
            problems.add(&at.field("name"), message);
        }
    }
}
