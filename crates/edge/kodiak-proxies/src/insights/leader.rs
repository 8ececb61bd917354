//! What one control plane does for all of them: connections that nobody holds any more, and proxies long gone.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::PoisonError,
    time::Duration,
};

use jiff::{SignedDuration, Timestamp};
use kodiak_catalog::spec_of;
use kodiak_model::{ProxyKey, kinds::dataplane_insight, kinds::dataplane_insight::DataplaneInsight};
use kodiak_store::{Record, Snapshot, StoreError};
use tokio::time::Instant;

use crate::{Registry, batch, insights::flush};

/// After a write that failed: the store may be away.
const RETRY: Duration = Duration::from_secs(1);

/// The last sign of life of each open connection, and when it was first seen.
#[derive(Default)]
pub(crate) struct Seen(BTreeMap<ProxyKey, BTreeMap<String, (u32, Timestamp)>>);

impl Seen {
    /// Since when the connection has shown no sign of life.
    fn since(&mut self, before: &mut Self, key: &ProxyKey, id: &str, generation: u32, now: Timestamp) -> Timestamp {
        let known = before.0.get_mut(key).and_then(|of_proxy| of_proxy.remove(id));
        let since = known.filter(|(last, _)| *last == generation).map_or(now, |(_, since)| since);
        self.0.entry(key.clone()).or_default().insert(id.to_owned(), (generation, since));
        since
    }
}

impl Registry {
    /// Closes, in insights, connections that show no sign of life, and says how many proxies that concerns. Only
    /// the leader may do it: others do not know what it has seen.
    pub async fn finalize_once(&self, now: Timestamp) -> usize {
        let store = self.0.catalog.store();
        let snapshot = store.snapshot();
        let writes: Vec<_> = {
            let mut seen = self.0.seen.lock().unwrap_or_else(PoisonError::into_inner);
            let mut before = std::mem::take(&mut *seen);
            let lost = insights(&snapshot).filter_map(|(key, record, mut insight)| {
                self.close_lost(&mut seen, &mut before, &key, &mut insight, now);
                flush::write(&key, Some(record), &insight)
            });
            lost.collect()
        };
        let outcomes = batch::commit(store, &writes).await;
        // One that was written meanwhile has shown a sign of life.
        outcomes.iter().filter(|outcome| outcome.is_ok()).count()
    }

    fn close_lost(
        &self,
        seen: &mut Seen,
        before: &mut Seen,
        key: &ProxyKey,
        insight: &mut DataplaneInsight,
        now: Timestamp,
    ) {
        let is_ours = self.state().streams.contains_key(key);
        for subscription in insight.subscriptions.iter_mut().filter(|subscription| subscription.is_open()) {
            let since = seen.since(before, key, &subscription.id, subscription.generation, now);
            let held_here = is_ours && subscription.control_plane_instance_id == self.0.settings.instance_id;
            if !held_here && is_older(since, self.0.settings.idle_timeout, now) {
                subscription.disconnect_time = Some(now.to_string());
            }
        }
    }

    /// Closes, in insights, connections to control planes that are dead, once `grace` has passed in which the proxy could
    /// come back. `lost` says since when an instance is dead. Gives the number of proxies that it concerns, and when the
    /// next one is due. Only the leader may do it.
    ///
    /// The connection ended when its control plane did, so that is what the insight says: whoever counts a grace from
    /// there does not count it twice.
    pub async fn close_abandoned(
        &self,
        grace: Duration,
        lost: impl Fn(&str) -> Option<Instant>,
    ) -> (usize, Option<Instant>) {
        let store = self.0.catalog.store();
        let snapshot = store.snapshot();
        let (now, time) = (Instant::now(), (self.0.settings.now)());
        let mut next: Option<Instant> = None;
        let mut writes = Vec::new();
        for (key, record, mut insight) in insights(&snapshot) {
            for subscription in insight.subscriptions.iter_mut().filter(|subscription| subscription.is_open()) {
                let instance = &subscription.control_plane_instance_id;
                if *instance == self.0.settings.instance_id {
                    continue;
                }
                let Some(since) = lost(instance) else { continue };
                let due = since + grace;
                if due > now {
                    next = Some(next.map_or(due, |next| next.min(due)));
                    continue;
                }
                let ago = SignedDuration::try_from(now.duration_since(since)).unwrap_or(SignedDuration::ZERO);
                subscription.disconnect_time = Some(time.checked_sub(ago).unwrap_or(time).to_string());
            }
            writes.extend(flush::write(&key, Some(record), &insight));
        }
        let outcomes = batch::commit(store, &writes).await;
        let closed = outcomes.iter().filter(|outcome| outcome.is_ok()).count();
        if closed > 0 {
            tracing::info!(proxies = closed, "closed connections of proxies to control planes that are gone");
        }
        if outcomes.iter().any(|outcome| matches!(outcome, Err(error) if !matches!(error, StoreError::Conflict(_)))) {
            tracing::warn!("failed to close connections of proxies to control planes that are gone, retrying");
            next = Some(now + RETRY);
        }
        (closed, next)
    }

    /// Deletes the Dataplanes whose proxies are away for too long, and says how many. For the leader.
    pub async fn collect_garbage_once(&self, now: Timestamp) -> usize {
        let age = self.0.settings.cleanup_age;
        let is_old = |insight: &DataplaneInsight| {
            let left = insight.subscriptions.iter().filter_map(|known| known.disconnect_time.as_deref()?.parse().ok());
            !insight.is_online() && left.max().is_some_and(|left: Timestamp| is_older(left, age, now))
        };
        let snapshot = self.0.catalog.store().snapshot();
        let old: BTreeSet<_> =
            insights(&snapshot).filter(|(_, _, insight)| is_old(insight)).map(|(key, ..)| key).collect();
        let count = old.len();
        if count == 0 {
            return 0;
        }
        let still_old = |snapshot: &Snapshot, key: &ProxyKey| {
            let record = snapshot.get(&flush::insight_key(key));
            record.and_then(spec_of::<DataplaneInsight>).is_some_and(|insight| is_old(&insight))
        };
        count - self.delete(old, still_old).await.len()
    }
}

fn is_older(since: Timestamp, age: Duration, now: Timestamp) -> bool {
    SignedDuration::try_from(age).is_ok_and(|age| now.duration_since(since) >= age)
}

fn insights(snapshot: &Snapshot) -> impl Iterator<Item = (ProxyKey, &Record, DataplaneInsight)> {
    snapshot.list(dataplane_insight::KIND.name).filter_map(|record| {
        let key = ProxyKey { mesh: record.key.mesh.clone(), name: record.key.name.clone() };
        Some((key, record, spec_of(record)?))
    })
}
