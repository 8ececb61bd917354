//! Deleting the Dataplanes of proxies that left.

use std::collections::BTreeSet;

use jiff::Timestamp;
use kodiak_model::{ProxyKey, kinds::dataplane_insight::DataplaneInsight};
use kodiak_store::{Expect, Leader, Snapshot, Store, StoreError, Write};
use tokio::time::{MissedTickBehavior, interval, sleep};
use tokio_util::sync::CancellationToken;

use crate::{
    Registry, batch,
    insights::is_older,
    run::{GATHER, TICK},
    stored,
};

impl Registry {
    /// Deletes Dataplanes that proxies provided, some time after they left, until the drain of the control plane.
    pub(crate) async fn deregister(&self, drain: &CancellationToken) {
        let mut tick = interval(TICK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                biased;
                () = drain.cancelled() => return,
                () = self.0.registrations.due.notified() => sleep(GATHER).await,
                _ = tick.tick() => (),
            }
            self.deregister_due().await;
        }
    }

    async fn deregister_due(&self) {
        let left = self.0.registrations.take_due();
        if left.is_empty() || self.is_stopping() {
            return;
        }
        let instance = &self.0.settings.instance_id;
        let failed = self
            .delete(self.0.catalog.store(), left, |snapshot, key| !is_connected_elsewhere(snapshot, key, instance))
            .await;
        self.0.registrations.retry(failed);
    }

    /// Deletes the Dataplanes whose proxies are offline for longer than `cleanup_age`, and returns how many. Only for the
    /// leader.
    pub async fn collect_garbage_once(&self, leader: &Leader, now: Timestamp) -> usize {
        let age = self.0.settings.cleanup_age;
        let is_old = |insight: &DataplaneInsight| {
            let left = insight.subscriptions.iter().filter_map(|known| known.disconnect_time.as_deref()?.parse().ok());
            !insight.is_online() && left.max().is_some_and(|left: Timestamp| is_older(left, age, now))
        };
        let snapshot = leader.snapshot();
        let old = stored::insights(&snapshot).filter(|(_, _, insight)| is_old(insight));
        let old: BTreeSet<_> = old.map(|(key, ..)| key).collect();
        let count = old.len();
        if count == 0 {
            return 0;
        }
        let still_old =
            |snapshot: &Snapshot, key: &ProxyKey| stored::insight_of(snapshot, key).is_some_and(|known| is_old(&known));
        count - self.delete(leader, old, still_old).await.len()
    }

    /// Deletes these Dataplanes, unless their proxies are connected here or `may_delete` denies it. Returns those that it
    /// failed to delete, or did not delete because their proxies try to connect.
    async fn delete(
        &self,
        store: &Store,
        keys: BTreeSet<ProxyKey>,
        may_delete: impl Fn(&Snapshot, &ProxyKey) -> bool,
    ) -> Vec<ProxyKey> {
        let _deleting = self.0.registrations.deleting().await;
        let snapshot = store.snapshot();
        let (mut leaving, mut writes) = (Vec::new(), Vec::new());
        let is_there = |key: &ProxyKey| self.0.sessions.is_connected(key) || self.0.registrations.is_trying(key);
        let (kept, gone): (Vec<_>, Vec<_>) = keys.into_iter().partition(is_there);
        // Those that are connected are watched by their stream.
        let mut failed: Vec<_> = kept.into_iter().filter(|key| !self.0.sessions.is_connected(key)).collect();
        for key in gone {
            match snapshot.get(&key.dataplane()).filter(|_| may_delete(&snapshot, &key)) {
                // Somebody's write since then is a reason to decide again.
                Some(record) => {
                    writes.push(Write::Delete { key: key.dataplane(), expect: Expect::Version(record.version) });
                    leaving.push(key);
                }
                None => self.0.registrations.forget(&key),
            }
        }
        let outcomes = batch::commit(store, writes).await;
        for (key, outcome) in leaving.into_iter().zip(outcomes) {
            match outcome {
                Ok(()) | Err(StoreError::NotFound(_)) => {
                    self.0.registrations.forget(&key);
                    self.0.readiness.deleted(&key, store.snapshot().revision());
                    tracing::info!(proxy = %key, "deleted the Dataplane of a proxy that left");
                }
                Err(StoreError::Conflict(_)) => failed.push(key),
                Err(error) => {
                    tracing::warn!(proxy = %key, %error, "failed to delete the Dataplane of a proxy that left, retrying");
                    failed.push(key);
                }
            }
        }
        failed
    }
}

fn is_connected_elsewhere(snapshot: &Snapshot, key: &ProxyKey, instance: &str) -> bool {
    stored::insight_of(snapshot, key).is_some_and(|insight| {
        let last = insight.last_subscription();
        last.is_some_and(|last| last.is_open() && last.control_plane_instance_id != instance)
    })
}
