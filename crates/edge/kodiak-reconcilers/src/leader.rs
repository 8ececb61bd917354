//! Doing something on one control plane only.

use std::time::Duration;

use kodiak_store::Store;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// After a failed write: the store may be away.
pub(crate) const PAUSE: Duration = Duration::from_secs(1);

/// Waits until this instance leads. `false`: it is time to end.
pub(crate) async fn lead(leadership: &mut watch::Receiver<bool>, drain: &CancellationToken) -> bool {
    tokio::select! {
        biased;
        () = drain.cancelled() => false,
        led = leadership.wait_for(|leads| *leads) => led.is_ok(),
    }
}

/// Whether this instance leads right now.
pub(crate) fn leads(store: &Store) -> bool {
    *store.leadership().borrow()
}
