//! Connections of the ports.

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge},
    registry::Registry,
};

/// Connections of all ports.
#[derive(Clone, Default)]
pub struct Listeners {
    open: Family<ListenerLabels, Gauge>,
    refused: Family<RefusedLabels, Counter>,
}

/// Connections of one port.
#[derive(Clone)]
pub struct ListenerMetrics {
    listener: &'static str,
    open: Gauge,
    all: Listeners,
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

    pub fn of(&self, listener: &'static str) -> ListenerMetrics {
        let open = self.open.get_or_create_owned(&ListenerLabels { listener });
        ListenerMetrics { listener, open, all: self.clone() }
    }
}

impl ListenerMetrics {
    pub fn opened(&self) {
        self.open.inc();
    }

    pub fn closed(&self) {
        self.open.dec();
    }

    pub fn refused(&self, reason: &'static str) {
        self.all.refused.get_or_create(&RefusedLabels { listener: self.listener, reason }).inc();
    }
}
