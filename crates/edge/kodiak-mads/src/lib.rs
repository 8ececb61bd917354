//! Service discovery for Prometheus: Kuma's Monitoring Assignment Discovery Service over HTTP, which `kuma_sd_configs`
//! of Prometheus reads.
//!
//! A client sends the version that it has. The server answers at once with a newer one, or waits for one until the
//! client's timeout, and then answers 304.
//!
//! **Invariant:** it reads the store, and changes nothing.
//! **Invariant:** every request has limits of its size and of its time, and is computed on the pool: it reads all Dataplanes.

mod discovery;
mod poll;

use std::time::Duration;

use axum::{Router, extract::DefaultBodyLimit, routing::post};
use kodiak_pool::Pool;
use kodiak_store::Store;
use tokio_util::sync::CancellationToken;

/// Largest request. Those of Prometheus have a few hundred bytes.
const LARGEST_REQUEST: usize = 64 << 10;
/// Longest wait for a change, whatever a client asks for.
pub const LONGEST_WAIT: Duration = Duration::from_mins(5);

#[derive(Clone)]
pub struct Mads {
    store: Store,
    /// Wait for a change when the client sets none.
    default_wait: Duration,
    pool: Pool,
    drain: CancellationToken,
}

impl Mads {
    /// `pool` computes the answers. Waiting requests end when `drain` is cancelled.
    pub fn new(store: Store, default_wait: Duration, pool: Pool, drain: CancellationToken) -> Self {
        Self { store, default_wait, pool, drain }
    }

    pub fn router(self) -> Router {
        Router::new()
            .route("/v3/discovery:monitoringassignments", post(discovery::discover))
            .layer(DefaultBodyLimit::max(LARGEST_REQUEST))
            .with_state(self)
    }
}
