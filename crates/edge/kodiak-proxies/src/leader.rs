//! Work that the leader does for all control planes: connections that nobody holds, and Dataplanes of proxies long gone.

use std::{collections::BTreeSet, time::Duration};

use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::Registry;

/// How often the leader looks for proxies that are gone.
const PERIOD: Duration = Duration::from_mins(1);

impl Registry {
    /// While this control plane leads, closes connections in insights that no control plane holds, and deletes Dataplanes
    /// of proxies that are offline for too long. Ends with the drain.
    ///
    /// A proxy that was connected to a control plane which died gets `grace` to come back, from the moment the control
    /// plane was lost or this one started to watch, whichever is later.
    pub async fn lead(&self, grace: Duration, drain: CancellationToken) {
        let store = self.0.catalog.store();
        let mut leadership = store.leadership();
        let mut presence = store.presence();
        let mut present = BTreeSet::new();
        let mut period = interval(PERIOD);
        period.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut due: Option<Instant> = None;
        // A store that only one process can have open knows of no other control plane.
        let (mut elects, mut hears) = (true, true);
        loop {
            let mut full = false;
            tokio::select! {
                biased;
                () = drain.cancelled() => return,
                _ = period.tick() => full = true,
                () = until(due) => (),
                changed = leadership.changed(), if elects => elects = changed.is_ok(),
                changed = presence.changed(), if hears => {
                    hears = changed.is_ok();
                    // Most looks find the same as the one before, and reading all insights is not free.
                    let now = presence.borrow_and_update().present();
                    if now == present {
                        continue;
                    }
                    present = now;
                }
            }
            let Some(leader) = store.leader() else {
                due = None;
                continue;
            };
            let known = presence.borrow().clone();
            (_, due) = self.close_abandoned(&leader, grace, |instance| known.lost(instance)).await;
            if full {
                self.finalize_once(&leader, self.now()).await;
                self.collect_garbage_once(&leader, self.now()).await;
            }
        }
    }
}

async fn until(moment: Option<Instant>) {
    match moment {
        Some(moment) => sleep_until(moment).await,
        None => std::future::pending().await,
    }
}
