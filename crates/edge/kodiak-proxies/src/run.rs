//! The one task of this crate.

use std::time::Duration;

use tokio::time::{Instant, MissedTickBehavior, interval, interval_at, sleep};
use tokio_util::sync::CancellationToken;

use crate::Registry;

/// How often to look for what is due.
const TICK: Duration = Duration::from_secs(1);
/// Proxies come in crowds: wait this long for others before writing for one.
const GATHER: Duration = Duration::from_millis(100);

impl Registry {
    /// Writes insights and inbound readiness, deletes Dataplanes of proxies that left, and closes streams whose tokens have
    /// expired or were revoked, until the drain.
    pub async fn run(&self, drain: CancellationToken) {
        let drain = self.0.drain.get_or_init(|| drain);
        tokio::join!(self.upkeep(drain), self.0.readiness.run(drain));
        self.stop();
        // What proxies have acknowledged until now.
        self.flush().await;
    }

    async fn upkeep(&self, drain: &CancellationToken) {
        let mut tick = interval(TICK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // Twice as often as somebody looks for it.
        let beat = (self.0.settings.idle_timeout / 2).max(TICK);
        let mut beat = interval_at(Instant::now() + beat, beat);
        beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let mut ticked = false;
            tokio::select! {
                biased;
                () = drain.cancelled() => break,
                _ = beat.tick() => self.beat(),
                () = self.0.nudge.notified() => sleep(GATHER).await,
                _ = tick.tick() => ticked = true,
            }
            self.close_expired();
            if ticked {
                self.recheck_next();
            }
            self.flush().await;
            self.depart().await;
        }
    }
}
