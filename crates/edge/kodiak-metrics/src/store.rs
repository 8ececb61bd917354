//! Durable writes and contents of the store.

use std::time::Duration;

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram},
    registry::Registry,
};

use crate::gauge;

#[derive(Clone)]
pub struct StoreMetrics {
    commits: Counter,
    commit_requests: Counter,
    commit_changes: Counter,
    commit_failures: Counter,
    commit_seconds: Histogram,
    resources: Family<KindLabels, Gauge>,
    /// With the label of Kuma.
    resources_count: Family<TypeLabels, Gauge>,
    revision: Gauge,
    unreadable: Gauge,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct KindLabels {
    kind: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct TypeLabels {
    resource_type: String,
}

pub(crate) fn seconds() -> Histogram {
    Histogram::new([0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0])
}

impl StoreMetrics {
    pub(crate) fn new() -> Self {
        Self {
            commits: Counter::default(),
            commit_requests: Counter::default(),
            commit_changes: Counter::default(),
            commit_failures: Counter::default(),
            commit_seconds: seconds(),
            resources: Family::default(),
            resources_count: Family::default(),
            revision: Gauge::default(),
            unreadable: Gauge::default(),
        }
    }

    pub(crate) fn register(&self, registry: &mut Registry) {
        registry.register("store_commits", "Durable writes of the store", self.commits.clone());
        registry.register("store_commit_requests", "Requests answered by durable writes", self.commit_requests.clone());
        registry.register("store_commit_changes", "Changes made durable", self.commit_changes.clone());
        registry.register("store_commit_failures", "Durable writes that failed", self.commit_failures.clone());
        registry.register("store_commit_seconds", "Time of a durable write", self.commit_seconds.clone());
        registry.register("resources", "Stored resources by kind", self.resources.clone());
        registry.register("store_revision", "Revision of the store", self.revision.clone());
        registry.register(
            "unreadable_resources",
            "Stored resources that this version cannot read",
            self.unreadable.clone(),
        );
    }

    pub(crate) fn register_kuma(&self, registry: &mut Registry) {
        registry.register("resources_count", "Stored resources by type", self.resources_count.clone());
        let commits = registry.sub_registry_with_label(("operation".into(), "commit".into()));
        commits.register("store", "Time of a durable write", self.commit_seconds.clone());
    }

    /// One durable write answered `requests` callers.
    pub fn committed(&self, requests: usize, changes: usize, took: Duration) {
        self.commits.inc();
        self.commit_requests.inc_by(requests as u64);
        self.commit_changes.inc_by(changes as u64);
        self.commit_seconds.observe(took.as_secs_f64());
    }

    pub fn failed(&self) {
        self.commit_failures.inc();
    }

    pub fn unreadable(&self, count: usize) {
        self.unreadable.set(gauge(count));
    }

    /// Number of resources of each kind. Kinds that are not given have none.
    pub fn contents(&self, revision: u64, kinds: impl IntoIterator<Item = (impl AsRef<str>, usize)>) {
        self.revision.set(gauge(revision));
        self.resources.clear();
        self.resources_count.clear();
        for (kind, count) in kinds {
            let (kind, count) = (kind.as_ref().to_owned(), gauge(count));
            self.resources_count.get_or_create(&TypeLabels { resource_type: kind.clone() }).set(count);
            self.resources.get_or_create(&KindLabels { kind }).set(count);
        }
    }
}
