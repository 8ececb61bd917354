//! Deleting the Dataplanes of proxies that brought them and left.

use std::{collections::BTreeSet, time::Duration};

use kodiak_catalog::spec_of;
use kodiak_model::{ProxyKey, kinds::dataplane_insight::DataplaneInsight};
use kodiak_store::{Expect, Snapshot, StoreError, Write};
use tokio::time::Instant;

use crate::{Registry, batch, insights::flush::insight_key};

/// A proxy that left, and when it is taken not to come back.
pub(crate) struct Departure {
    pub(crate) key: ProxyKey,
    at: Instant,
}

impl Departure {
    pub(crate) fn after(key: ProxyKey, delay: Duration) -> Self {
        Self { key, at: Instant::now() + delay }
    }
}

impl Registry {
    /// A proxy is about to bring a Dataplane that is not stored yet. If it goes away meanwhile, that is left behind.
    pub(crate) fn expect_arrival(&self, key: &ProxyKey) {
        let mut state = self.state();
        state.brought.insert(key.clone());
        state.departures.push(Departure::after(key.clone(), self.0.settings.deregistration_delay));
    }

    /// It was not stored.
    pub(crate) fn forget_arrival(&self, key: &ProxyKey) {
        let mut state = self.state();
        // Unless another connection of the proxy has stored it.
        if !state.streams.contains_key(key) {
            state.brought.remove(key);
        }
        state.departures.retain(|departure| departure.key != *key);
    }

    /// Deletes the Dataplanes of those whose time is over.
    pub(crate) async fn depart(&self) {
        let now = Instant::now();
        let gone: BTreeSet<ProxyKey> = {
            let mut state = self.state();
            state.departures.extract_if(.., |departure| departure.at <= now).map(|departure| departure.key).collect()
        };
        if gone.is_empty() || self.is_stopping() {
            return;
        }
        let instance = self.0.settings.instance_id.clone();
        let failed = self.delete(gone, |snapshot, key| !is_connected_elsewhere(snapshot, key, &instance)).await;
        let delay = self.0.settings.deregistration_delay;
        let mut state = self.state();
        state.departures.extend(failed.into_iter().map(|key| Departure::after(key, delay)));
    }

    /// Deletes these Dataplanes, unless their proxies are here or `may_go` denies it. Gives back those it could not.
    pub(crate) async fn delete(
        &self,
        keys: BTreeSet<ProxyKey>,
        may_go: impl Fn(&Snapshot, &ProxyKey) -> bool,
    ) -> Vec<ProxyKey> {
        let _registering = self.0.registering.write().await;
        let store = self.0.catalog.store();
        let snapshot = store.snapshot();
        let mut going = Vec::new();
        {
            let mut state = self.state();
            for key in keys.into_iter().filter(|key| !state.streams.contains_key(key)).collect::<Vec<_>>() {
                if snapshot.get(&key.dataplane()).is_some() && may_go(&snapshot, &key) {
                    going.push(key);
                } else {
                    state.brought.remove(&key);
                }
            }
        }
        // Somebody's write since then is a reason to decide again.
        let delete = |key: &ProxyKey| {
            let version = snapshot.get(&key.dataplane()).map_or(0, |record| record.version);
            Write::Delete { key: key.dataplane(), expect: Expect::Version(version) }
        };
        let writes: Vec<_> = going.iter().map(delete).collect();
        let outcomes = batch::commit(store, &writes).await;
        let (mut failed, mut deleted) = (Vec::new(), Vec::new());
        let mut state = self.state();
        for (key, outcome) in going.into_iter().zip(outcomes) {
            match outcome {
                Ok(()) | Err(StoreError::NotFound(_)) => {
                    state.brought.remove(&key);
                    deleted.push(key.clone());
                    tracing::info!(proxy = %key, "Deleted the Dataplane of a proxy that left.");
                }
                Err(StoreError::Conflict(_)) => failed.push(key),
                Err(error) => {
                    tracing::warn!(proxy = %key, %error, "failed to delete the Dataplane of a proxy that left, retrying");
                    failed.push(key);
                }
            }
        }
        drop(state);
        for key in deleted {
            self.0.readiness.deleted(&key, store.snapshot().revision());
        }
        failed
    }
}

fn is_connected_elsewhere(snapshot: &Snapshot, key: &ProxyKey, instance: &str) -> bool {
    let insight = snapshot.get(&insight_key(key)).and_then(spec_of::<DataplaneInsight>);
    insight.is_some_and(|insight| {
        let last = insight.last_subscription();
        last.is_some_and(|last| last.is_open() && last.control_plane_instance_id != instance)
    })
}
