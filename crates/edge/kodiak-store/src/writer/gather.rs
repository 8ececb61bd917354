//! Writes that come in crowds wait for each other.
//!
//! A thousand proxies that arrive within a second would otherwise be hundreds of durable writes, each of which all
//! control planes read and every reconciler and the engine follow.

use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use super::{MAX_BATCH, Request, Writer};

/// A gathered write waits until no other one came for this time. A single proxy that arrives pays no more than this.
const QUIET: Duration = Duration::from_millis(5);
/// It waits at most for this time.
const MOST: Duration = Duration::from_millis(100);

impl Writer {
    /// Takes more requests while all that were taken may wait. A request that may not wait ends it, and takes the others
    /// along.
    pub(super) async fn gather(&mut self, requests: &mut Vec<Request>) {
        // Those that waited for the previous write have gathered meanwhile.
        let oldest = requests.iter().filter_map(|request| request.gathers).min();
        let Some(deadline) = oldest.map(|oldest| oldest + MOST) else { return };
        let mut gathered = 0;
        while requests[gathered..].iter().all(|request| request.gathers.is_some())
            && requests.len() < MAX_BATCH
            && Instant::now() < deadline
        {
            gathered = requests.len();
            let quiet = deadline.min(Instant::now() + QUIET);
            let room = MAX_BATCH - gathered;
            tokio::select! {
                biased;
                () = self.closing.cancelled() => return,
                taken = self.queue.recv_many(requests, room) => if taken == 0 { return },
                () = sleep_until(quiet) => return,
            }
        }
    }
}
