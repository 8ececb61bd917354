//! Connections that no control plane holds any more: the leader closes them in insights.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::PoisonError,
    time::Duration,
};

use jiff::{SignedDuration, Timestamp};
use kodiak_model::{ProxyKey, kinds::dataplane_insight::DataplaneInsight};
use kodiak_store::{Leader, StoreError};
use tokio::time::Instant;

use super::{InsightWriter, flush};
use crate::{batch, stored};

/// Delay after a failed write: the store may be unavailable.
const RETRY: Duration = Duration::from_secs(1);

/// The last sign of life of each open connection, and when it was first seen.
#[derive(Default)]
pub(super) struct Seen(BTreeMap<ProxyKey, BTreeMap<String, (u32, Timestamp)>>);

impl Seen {
    /// Since when the connection has shown no sign of life.
    fn since(&mut self, before: &mut Self, key: &ProxyKey, id: &str, generation: u32, now: Timestamp) -> Timestamp {
        let known = before.0.get_mut(key).and_then(|of_proxy| of_proxy.remove(id));
        let since = known.filter(|(last, _)| *last == generation).map_or(now, |(_, since)| since);
        self.0.entry(key.clone()).or_default().insert(id.to_owned(), (generation, since));
        since
    }
}

impl InsightWriter {
    /// Closes, in insights, connections that show no sign of life, and says how many proxies that concerns. Only
    /// the leader may do it: others do not know what it has seen.
    pub(crate) async fn close_lost(&self, leader: &Leader, now: Timestamp, connected: &BTreeSet<ProxyKey>) -> usize {
        let snapshot = leader.snapshot();
        let writes: Vec<_> = {
            let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
            let mut before = std::mem::take(&mut *seen);
            let lost = stored::insights(&snapshot).filter_map(|(key, record, mut insight)| {
                let is_connected = connected.contains(&key);
                self.close_idle(&mut seen, &mut before, &key, &mut insight, now, is_connected);
                flush::write(&key, Some(record), &insight)
            });
            lost.collect()
        };
        let outcomes = batch::commit(leader, writes).await;
        // One that was written meanwhile has shown a sign of life.
        outcomes.iter().filter(|outcome| outcome.is_ok()).count()
    }

    fn close_idle(
        &self,
        seen: &mut Seen,
        before: &mut Seen,
        key: &ProxyKey,
        insight: &mut DataplaneInsight,
        now: Timestamp,
        is_connected: bool,
    ) {
        for subscription in insight.subscriptions.iter_mut().filter(|subscription| subscription.is_open()) {
            let since = seen.since(before, key, &subscription.id, subscription.generation, now);
            let held_here = is_connected && subscription.control_plane_instance_id == self.settings.instance_id;
            if !held_here && is_older(since, self.settings.idle_timeout, now) {
                subscription.disconnect_time = Some(now.to_string());
            }
        }
    }

    /// Closes, in insights, connections to control planes that are dead, once `grace` has passed in which the proxy could
    /// come back. `lost` says since when an instance is dead. Gives the number of proxies that it concerns, and when the
    /// next one is due. Only the leader may do it.
    ///
    /// The connection ended when its control plane died, so that is its end in the insight: who counts a grace period from
    /// there does not count it twice.
    pub(crate) async fn close_abandoned(
        &self,
        leader: &Leader,
        grace: Duration,
        lost: impl Fn(&str) -> Option<Instant>,
    ) -> (usize, Option<Instant>) {
        let snapshot = leader.snapshot();
        let (now, time) = (Instant::now(), (self.settings.now)());
        let mut next: Option<Instant> = None;
        let mut writes = Vec::new();
        for (key, record, mut insight) in stored::insights(&snapshot) {
            for subscription in insight.subscriptions.iter_mut().filter(|subscription| subscription.is_open()) {
                let instance = &subscription.control_plane_instance_id;
                if *instance == self.settings.instance_id {
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
        let outcomes = batch::commit(leader, writes).await;
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
}

pub(crate) fn is_older(since: Timestamp, age: Duration, now: Timestamp) -> bool {
    SignedDuration::try_from(age).is_ok_and(|age| now.duration_since(since) >= age)
}
