//! Whether writes are made durable, as the last of them showed.

use tokio::time::Instant;

use crate::error::StoreError;

/// Outcome of the last durable write, whoever asked for it.
#[derive(Debug, Clone)]
pub struct Health {
    pub checked: Instant,
    /// Why writes fail. Reads go on.
    pub read_only: Option<StoreError>,
}

impl Health {
    pub(crate) fn now(read_only: Option<StoreError>) -> Self {
        Self { checked: Instant::now(), read_only }
    }
}
