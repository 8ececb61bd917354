//! Creates the default resources of a new control plane, on the leader.

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

/// Runs whenever this instance becomes the leader. `done` becomes true when the defaults exist, or another instance
/// leads.
pub(crate) async fn run(
    catalog: Catalog,
    defaults: Defaults,
    done: Arc<AtomicBool>,
    drain: CancellationToken,
) -> anyhow::Result<()> {
    let mut leadership = catalog.store().leadership();
    loop {
        leadership.borrow_and_update();
        if let Some(leader) = catalog.store().leader() {
            match catalog.of(&leader).ensure_defaults(defaults).await {
                Ok(ensured) => {
                    if !ensured.created.is_empty() {
                        tracing::info!(created = ensured.created.join(", "), "created default resources");
                    }
                }
                Err(error) => {
                    tracing::warn!(
                        error = format!("{:#}", anyhow::Error::from(error)),
                        "failed to create default resources, retrying"
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
