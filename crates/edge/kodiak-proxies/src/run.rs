//! The one task of this crate: a loop for each part, side by side, so that none waits for the writes of another.

use std::time::Duration;

use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use crate::Registry;

/// How often each loop looks for work that is due.
pub(crate) const TICK: Duration = Duration::from_secs(1);
/// Proxies come in crowds: wait this long for others before writing for one.
pub(crate) const GATHER: Duration = Duration::from_millis(100);

impl Registry {
    /// Writes insights, inbound readiness and observed traffic, deletes Dataplanes of proxies that left, and closes streams whose tokens have
    /// expired or were revoked, until the drain.
    pub async fn run(&self, drain: CancellationToken) {
        let drain = self.0.drain.get_or_init(|| drain);
        tokio::join!(
            self.0.insights.run(drain),
            self.0.readiness.run(drain),
            self.0.traffic.run(drain),
            self.deregister(drain),
            self.verify_tokens(drain),
        );
        self.stop();
        // Steps that proxies have acknowledged until now.
        self.0.insights.flush().await;
        self.0.traffic.flush().await;
    }

    async fn verify_tokens(&self, drain: &CancellationToken) {
        let mut tick = interval(TICK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                biased;
                () = drain.cancelled() => return,
                _ = tick.tick() => (),
            }
            self.0.sessions.close_expired(self.now());
            self.recheck_next();
        }
    }
}
