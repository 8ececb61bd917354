//! Makes what a new control plane needs, on the one that leads.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use kodiak_catalog::{Catalog, Defaults};
use tokio_util::sync::CancellationToken;

const PAUSE: Duration = Duration::from_secs(5);

/// Whenever this instance becomes the leader. `done` turns true once the defaults are there or are another's task.
pub(crate) async fn run(
    catalog: Catalog,
    defaults: Defaults,
    done: Arc<AtomicBool>,
    drain: CancellationToken,
) -> anyhow::Result<()> {
    let mut leadership = catalog.store().leadership();
    loop {
        if *leadership.borrow_and_update() {
            match catalog.ensure_defaults(defaults).await {
                Ok(ensured) => {
                    if !ensured.created.is_empty() {
                        tracing::info!(created = ensured.created.join(", "), "Made the defaults.");
                    }
                }
                Err(error) => {
                    tracing::warn!(
                        error = format!("{:#}", anyhow::Error::from(error)),
                        "Cannot make the defaults yet; will try again."
                    );
                    tokio::select! {
                        biased;
                        () = drain.cancelled() => return Ok(()),
                        () = tokio::time::sleep(PAUSE) => continue,
                    }
                }
            }
        }
        done.store(true, Ordering::Release);
        tokio::select! {
            biased;
            () = drain.cancelled() => return Ok(()),
            changed = leadership.changed() => if changed.is_err() {
                drain.cancelled().await;
                return Ok(());
            },
        }
    }
}
