//! Health of the back end, by the last durable write.

use tokio::time::Instant;

use crate::error::StoreError;

/// Result of the last durable write of any caller.
#[derive(Debug, Clone)]
pub struct Health {
    pub checked: Instant,
    /// Why writes fail. Reads continue to work.
    pub read_only: Option<StoreError>,
}

impl Health {
    pub(crate) fn now(read_only: Option<StoreError>) -> Self {
        Self { checked: Instant::now(), read_only }
    }
}
