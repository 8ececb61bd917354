//! The traffic recorder: which clients call which destinations, from the load reports of proxies that are connected here,
//! and who calls servers without mTLS, from reports of their sidecar processes.
//!
//! - `names` finds the destinations of clusters.
//! - `shard` has the traffic of some clients, and what of it is stored.
//! - `parts` writes: each control plane has its own records, and the leader folds those of control planes that ended into
//!   one.
//!
//! **Invariant:** a control plane writes absolute counts into its own records, so a write that is repeated counts nothing
//! twice. A record that was folded is not written again with counts that are in the fold.
//! **Invariant:** the lock is never held while names are looked up or records are written.

mod names;
mod parts;
mod shard;

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use jiff::Timestamp;
use kodiak_envoy::envoy::config::endpoint::v3::ClusterStats;
use kodiak_model::ProxyKey;
use kodiak_store::Store;
use kodiak_traffic::{
    ClientId, ClientTraffic, ClusterLoad, EdgeTraffic, PlaintextReport, Recorded, ServerCallers, covered_seconds,
};
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use crate::{run::TICK, settings::ProxySettings};
use names::NameCache;
use shard::Shard;

/// Records of a mesh for each control plane: the limit of a record is 4 MiB.
pub(crate) const SHARDS: usize = 16;

pub(crate) struct TrafficRecorder {
    store: Store,
    settings: Arc<ProxySettings>,
    names: NameCache,
    /// By mesh and number.
    shards: Mutex<BTreeMap<(Arc<str>, usize), Shard>>,
}

impl TrafficRecorder {
    pub(crate) fn new(store: Store, settings: Arc<ProxySettings>) -> Self {
        Self { names: NameCache::default(), store, settings, shards: Mutex::default() }
    }

    pub(crate) fn report(&self, key: &ProxyKey, clusters: &[ClusterStats], now: Timestamp) {
        let Some(settings) = self.settings.traffic else { return };
        if clusters.is_empty() {
            // The first message of a stream.
            return;
        }
        if let Some(observer) = &self.settings.observer {
            observer.load_reported();
        }
        let snapshot = self.store.snapshot();
        let Some(client) = snapshot.world().proxy(key).and_then(|proxy| ClientId::of(proxy)) else { return };
        let now = now.as_second();
        let names = self.names.of(&snapshot, &key.mesh);
        let mut traffic = ClientTraffic::default();
        traffic.observed.add(now - covered_seconds(clusters), now);
        for stats in clusters {
            let load = ClusterLoad::of(stats);
            if load.is_used()
                && let Some(destination) = names.destination(&stats.cluster_name)
            {
                // Several clusters may be subsets or ports of one destination.
                let edge = EdgeTraffic::seen(load, now);
                traffic.destinations.entry(destination.clone()).and_modify(|known| known.merge(edge)).or_insert(edge);
            }
        }
        let observed = Recorded { clients: [(client.clone(), traffic)].into(), ..Recorded::default() };
        self.observe(key, &client, &observed, settings.max_edges);
    }

    /// Callers of the inbounds of a proxy, without mTLS.
    pub(crate) fn plaintext_callers(&self, key: &ProxyKey, report: &PlaintextReport, now: Timestamp) {
        let Some(settings) = self.settings.traffic else { return };
        let snapshot = self.store.snapshot();
        let Some(server) = snapshot.world().proxy(key).and_then(|proxy| ClientId::of(proxy)) else { return };
        let callers = ServerCallers::reported(report, now.as_second());
        if callers.is_empty() {
            return;
        }
        let observed = Recorded { plaintext: [(server.clone(), callers)].into(), ..Recorded::default() };
        self.observe(key, &server, &observed, settings.max_edges);
    }

    fn observe(&self, key: &ProxyKey, group: &ClientId, observed: &Recorded, max_edges: usize) {
        let limit = max_edges.div_ceil(SHARDS);
        self.shards().entry((key.mesh.clone(), shard::of(group))).or_default().observe(observed, limit);
    }

    /// Edges that this control plane has recorded, and observations that it dropped.
    fn count(&self) {
        let Some(observer) = &self.settings.observer else { return };
        let shards = self.shards();
        let totals = shards.values().map(Shard::total);
        let (edges, dropped) =
            totals.fold((0, 0), |(edges, dropped), total| (edges + total.edges(), dropped + total.all_dropped()));
        observer.traffic_recorded(edges, dropped);
    }

    /// Writes what has changed, until the drain.
    pub(crate) async fn run(&self, drain: &CancellationToken) {
        let Some(settings) = self.settings.traffic else { return };
        let mut tick = interval(settings.flush_interval.max(TICK));
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // The first tick is at once.
        tick.tick().await;
        loop {
            tokio::select! {
                biased;
                () = drain.cancelled() => return,
                _ = tick.tick() => (),
            }
            self.count();
            self.flush().await;
            self.fold(FOLD_GRACE).await;
        }
    }

    fn shards(&self) -> MutexGuard<'_, BTreeMap<(Arc<str>, usize), Shard>> {
        self.shards.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Time after which the records of a control plane that was lost are folded.
const FOLD_GRACE: Duration = Duration::from_mins(1);
