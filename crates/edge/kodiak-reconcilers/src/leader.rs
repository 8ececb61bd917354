//! Leadership, for work that only one control plane does.

use std::time::Duration;

use kodiak_store::Store;

/// Delay before a failed write is retried.
pub(crate) const PAUSE: Duration = Duration::from_secs(1);

/// Whether this instance is the leader now.
pub(crate) fn leads(store: &Store) -> bool {
    *store.leadership().borrow()
}
