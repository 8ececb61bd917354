//! The insight writer: DataplaneInsights of the proxies that are connected here.
//!
//! Sessions report what happens on each stream. The writer keeps one [`Observation`] a stream and writes the insights of
//! many proxies in one transaction: at once for what others wait for (a connection, an acknowledged step of a rollout),
//! and at most once in `insight_interval` for counters.
//!
//! - `observation` merges the state of one stream into the insight of its proxy; `flush` writes insights.
//! - `leader` closes, in insights, connections that no control plane holds any more.
//!
//! **Invariant:** every write expects the version that was read; after a conflict the next round builds on the new one.
//! **Invariant:** the lock of the observations is never held while an insight is decoded or written.

mod flush;
mod leader;
mod metadata;
mod observation;

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use jiff::Timestamp;
use kodiak_model::kinds::dataplane_insight::MtlsInsight;
use kodiak_store::Store;
use tokio::{
    sync::Notify,
    time::{Instant, MissedTickBehavior, interval, interval_at, sleep},
};
use tokio_util::sync::CancellationToken;

pub(crate) use leader::is_older;
pub(crate) use metadata::{for_insight, version};
pub(crate) use observation::Observation;

use crate::{
    run::{GATHER, TICK},
    sessions::Reported,
    settings::ProxySettings,
};

pub(crate) struct InsightWriter {
    store: Store,
    settings: Arc<ProxySettings>,
    /// By the id of their stream, so the older ones of a proxy come first.
    observations: Mutex<BTreeMap<u64, Observation>>,
    seen: Mutex<leader::Seen>,
    /// Wakes the writer before its next tick.
    due: Notify,
}

impl InsightWriter {
    pub(crate) fn new(store: Store, settings: Arc<ProxySettings>) -> Self {
        Self { store, settings, observations: Mutex::default(), seen: Mutex::default(), due: Notify::new() }
    }

    pub(crate) fn opened(&self, stream: u64, observation: Observation) {
        self.observations().insert(stream, observation);
        self.due.notify_one();
    }

    pub(crate) fn closed(&self, stream: u64, now: Timestamp) {
        if let Some(observation) = self.observations().get_mut(&stream) {
            observation.close(now);
            self.due.notify_one();
        }
    }

    pub(crate) fn reported(&self, stream: u64, reported: &Reported, now: Timestamp) {
        if let Some(observation) = self.observations().get_mut(&stream)
            && observation.report(reported, now)
        {
            self.due.notify_one();
        }
    }

    /// The certificate that was sent to the proxy. `acknowledged` is not taken from here.
    pub(crate) fn issued(&self, stream: u64, certificate: MtlsInsight, now: Timestamp) {
        if let Some(observation) = self.observations().get_mut(&stream) {
            observation.issue(certificate, now);
        }
    }

    /// Writes insights as they become due, until the drain of the control plane.
    pub(crate) async fn run(&self, drain: &CancellationToken) {
        let mut tick = interval(TICK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // Twice as often as the leader looks for it.
        let beat: Duration = (self.settings.idle_timeout / 2).max(TICK);
        let mut beat = interval_at(Instant::now() + beat, beat);
        beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                biased;
                () = drain.cancelled() => return,
                _ = beat.tick() => self.beat(),
                () = self.due.notified() => sleep(GATHER).await,
                _ = tick.tick() => (),
            }
            self.flush().await;
        }
    }

    /// Shows the leader that every connection is alive.
    fn beat(&self) {
        for observation in self.observations().values_mut() {
            observation.beat();
        }
    }

    fn observations(&self) -> MutexGuard<'_, BTreeMap<u64, Observation>> {
        self.observations.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
