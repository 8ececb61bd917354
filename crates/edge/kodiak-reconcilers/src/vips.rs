//! Gives every service its virtual address.

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

/// An address stays with its service for so long after nobody serves it any more.
const KEEP: SignedDuration = SignedDuration::from_hours(24);
/// How often to look for addresses that may be forgotten.
const PERIOD: Duration = Duration::from_hours(1);

/// The services of each mesh, as the writer sees them.
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
                tracing::warn!(%error, mesh = &**mesh, "Cannot store virtual addresses; will try again.");
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
                tracing::error!(mesh, "No virtual address is left; new services of this mesh have none.");
                return Ok(());
            }
            // What is stored stays as it is: it is all that is known of the addresses that are in use.
            Err(panicked) => {
                tracing::error!(mesh, %panicked, "failed to assign virtual addresses; new services of this mesh have none");
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
