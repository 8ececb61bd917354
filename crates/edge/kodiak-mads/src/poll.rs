//! Waits for assignments that differ from those of a client.

use std::time::Duration;

use kodiak_inspection::monitoring::KINDS;
use kodiak_model::Cancellation;
use kodiak_pool::{Caller, PoolError};
use tokio::time::{Instant, sleep, sleep_until};

use crate::{
    Mads,
    discovery::{DiscoveryResponse, respond},
};

/// Pause after a change: many Dataplanes change together, and Prometheus does not need them within a second.
const GATHER: Duration = Duration::from_secs(1);

/// `None` if there is no other version within this time.
pub(crate) async fn newer(
    mads: &Mads,
    client_id: &str,
    known: &str,
    wait: Duration,
) -> Result<Option<DiscoveryResponse>, PoolError> {
    let until = Instant::now() + wait;
    loop {
        let snapshot = mads.store.snapshot();
        let revision = snapshot.revision();
        let of_client = client_id.to_owned();
        let answer = move |cancellation: &Cancellation| respond(snapshot.world(), &of_client, cancellation);
        // The port is not for users, but nobody is authenticated there either.
        let computed = mads.pool.run(Caller::Anonymous, answer).await?;
        let Ok(response) = computed else { return Ok(None) };
        if response.version_info != known {
            return Ok(Some(response));
        }
        tokio::select! {
            () = changed(mads, revision) => (),
            () = sleep_until(until) => return Ok(None),
            () = mads.drain.cancelled() => return Ok(None),
        }
        if Instant::now() >= until {
            return Ok(None);
        }
    }
}

/// Returns some time after a change of the resources that assignments depend on.
async fn changed(mads: &Mads, after: u64) {
    if let Ok(mut watch) = mads.store.watch(after) {
        while let Ok(change) = watch.next().await {
            if KINDS.contains(&&*change.key.kind) {
                break;
            }
        }
    }
    // Also if the watch expired: then anything may have changed.
    sleep(GATHER).await;
}
