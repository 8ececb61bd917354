//! Leadership, for work that only one control plane does.

use std::time::Duration;

/// Delay before a failed write is retried.
pub(crate) const PAUSE: Duration = Duration::from_secs(1);
