//! The names that Kuma's dashboards use, beside ours: the same observations, under Kuma's names and labels.
//!
//! Every sample has the label `zone`, as in Kuma. Kuma's counters have no suffix `_total`, which a counter of OpenMetrics
//! must have, so their type is `unknown`; queries do not depend on it.

use std::sync::{Arc, Mutex, PoisonError};

use prometheus_client::{
    encoding::{EncodeMetric, MetricEncoder, text::encode_registry},
    metrics::{MetricType, TypedMetric, counter::Counter, family::Family, gauge::Gauge},
    registry::Registry,
};

use crate::{Metrics, summary::Summary};

/// Labels of `cp_info`, with their values.
pub type ControlPlaneInfo = Vec<(&'static str, String)>;

/// Registry of Kuma's names.
#[derive(Clone)]
pub(crate) struct KumaNames {
    registry: Arc<Mutex<Registry>>,
    leader: Gauge,
    summaries: [(&'static str, &'static str, Summary); 2],
    zone: Arc<str>,
}

impl KumaNames {
    pub(crate) fn new(metrics: &Metrics, zone: &str, info: &ControlPlaneInfo) -> Self {
        let zone_label = ("zone".into(), zone.to_owned().into());
        let mut registry = Registry::with_labels([zone_label].into_iter());
        let (leader, alive) = (Gauge::default(), Family::<ControlPlaneInfo, Gauge>::default());
        alive.get_or_create(info).set(1);
        registry.register("cp_info", "This control plane", alive);
        registry.register("leader", "1 on the control plane that is the leader", leader.clone());
        metrics.api.register_kuma(&mut registry);
        metrics.store.register_kuma(&mut registry);
        let summaries = metrics.xds.register_kuma(&mut registry);
        metrics.proxy_port.register_kuma(&mut registry);
        Self { registry: Arc::new(Mutex::new(registry)), leader, summaries, zone: zone.into() }
    }

    pub(crate) fn leads(&self, leads: bool) {
        self.leader.set(i64::from(leads));
    }

    pub(crate) fn encode(&self, text: &mut String) {
        let registry = self.registry.lock().unwrap_or_else(PoisonError::into_inner);
        encode_registry(text, &registry).expect("writing to a string does not fail");
        for (name, help, summary) in &self.summaries {
            summary.encode(name, help, &self.zone, text);
        }
    }
}

/// A counter whose name has no suffix.
#[derive(Debug, Clone, Default)]
pub(crate) struct Unsuffixed(pub(crate) Counter);

impl TypedMetric for Unsuffixed {
    const TYPE: MetricType = MetricType::Unknown;
}

impl EncodeMetric for Unsuffixed {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> Result<(), std::fmt::Error> {
        encoder.encode_gauge(&self.0.get())
    }

    fn metric_type(&self) -> MetricType {
        Self::TYPE
    }
}
