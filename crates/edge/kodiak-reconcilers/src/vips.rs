//! Virtual addresses of services that are known by their `kuma.io/service` tag.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use jiff::{SignedDuration, Timestamp};
use kodiak_services::vips::Vips;
use kodiak_store::{Store, StoreError};
use kodiak_world::document::{self, VIPS};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::{
    documents,
    leader::{PAUSE, lead, leads},
    quarantine::caught,
};

/// A service keeps its address for this time after its last proxy is gone.
const KEEP: SignedDuration = SignedDuration::from_hours(24);
/// Interval at which unused addresses are released.
const PERIOD: Duration = Duration::from_hours(1);

/// Services of each mesh, as published by the writer.
pub type Services = BTreeMap<Arc<str>, Arc<BTreeSet<Arc<str>>>>;

/// Runs until `drain`.
pub async fn run(store: Store, mut services: watch::Receiver<Services>, drain: CancellationToken) {
    let mut leadership = store.leadership();
    let mut period = tokio::time::interval(PERIOD);
    while lead(&mut leadership, &drain).await {
        let now = services.borrow_and_update().clone();
        let mut failed = false;
        for (mesh, services) in now.iter().filter(|_| leads(&store)) {
            if let Err(error) = assign(&store, mesh, services).await {
                tracing::warn!(%error, mesh = &**mesh, "failed to persist virtual addresses, retrying");
                failed = true;
            }
        }
        tokio::select! {
            biased;
            () = drain.cancelled() => return,
            () = tokio::time::sleep(PAUSE), if failed => (),
            changed = services.changed(), if !failed => if changed.is_err() { return },
            _ = period.tick() => (),
        }
    }
}

async fn assign(store: &Store, mesh: &str, services: &BTreeSet<Arc<str>>) -> Result<(), StoreError> {
    loop {
        let snapshot = store.snapshot();
        let old = snapshot.world().get(&document::key(mesh, VIPS));
        let known: Vips = old.and_then(|vips| documents::read(vips)).unwrap_or_default();
        let next = match caught(|| known.assign(services, Timestamp::now(), KEEP)) {
            Ok(Ok(next)) => next,
            Ok(Err(_)) => {
                tracing::error!(mesh, "virtual address range is exhausted, new services of this mesh get none");
                return Ok(());
            }
            // The stored record stays: it is the only copy of the addresses in use.
            Err(panicked) => {
                tracing::error!(mesh, %panicked, "failed to assign virtual addresses, new services of this mesh get none");
                return Ok(());
            }
        };
        if next == known || snapshot.get(&kodiak_model::ResourceKey::global("Mesh", mesh)).is_none() {
            return Ok(());
        }
        if documents::write(store, mesh, VIPS, old.map(AsRef::as_ref), &next).await? {
            return Ok(());
        }
    }
}
