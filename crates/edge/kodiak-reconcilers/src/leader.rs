//! Leadership, for work that only one control plane does.

use std::time::Duration;

use kodiak_store::Store;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// Delay before a failed write is retried.
pub(crate) const PAUSE: Duration = Duration::from_secs(1);

/// Waits until this instance is the leader. `false` when `drain` was cancelled.
pub(crate) async fn lead(leadership: &mut watch::Receiver<bool>, drain: &CancellationToken) -> bool {
    tokio::select! {
        biased;
        () = drain.cancelled() => false,
        led = leadership.wait_for(|leads| *leads) => led.is_ok(),
    }
}

/// Whether this instance is the leader now.
pub(crate) fn leads(store: &Store) -> bool {
    *store.leadership().borrow()
}
