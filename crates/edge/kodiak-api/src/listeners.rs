//! Connections of ports, for Prometheus.

use std::sync::Arc;

use kodiak_listen::{ConnectionObserver, Refused};
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge},
    registry::Registry,
};

#[derive(Clone, Default)]
pub(crate) struct Listeners {
    open: Family<ListenerLabels, Gauge>,
    refused: Family<RefusedLabels, Counter>,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ListenerLabels {
    listener: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct RefusedLabels {
    listener: &'static str,
    reason: &'static str,
}

impl Listeners {
    pub(crate) fn register(&self, registry: &mut Registry) {
        registry.register("connections", "Open connections by listener", self.open.clone());
        registry.register(
            "connections_refused",
            "Connections refused or closed because of a limit, by listener and reason",
            self.refused.clone(),
        );
    }

    pub(crate) fn observer(&self, listener: &'static str) -> Arc<dyn ConnectionObserver> {
        Arc::new(OfListener {
            open: self.open.get_or_create_owned(&ListenerLabels { listener }),
            listener,
            all: self.clone(),
        })
    }
}

struct OfListener {
    listener: &'static str,
    open: Gauge,
    all: Listeners,
}

impl ConnectionObserver for OfListener {
    fn opened(&self) {
        self.open.inc();
    }

    fn closed(&self) {
        self.open.dec();
    }

    fn refused(&self, reason: Refused) {
        let labels = RefusedLabels { listener: self.listener, reason: reason.as_str() };
        self.all.refused.get_or_create(&labels).inc();
    }
}
