//! Reconciler of services: generated MeshServices, and the status of all services with state, identities, proxy counts,
//! virtual addresses and hostnames; the virtual addresses of `kuma.io/service` names; and generated Workloads with the
//! status of all Workloads.
//!
//! [`kodiak_services::service_status::ServiceReconciler`] decides; this module feeds it with the store's changes, and
//! commits its writes.

mod observe;
mod preview;
#[cfg(test)]
mod tests;
mod write;

use std::time::Duration;

use jiff::Timestamp;
use kodiak_services::service_status::{Due, ServiceSettings};
use kodiak_store::{Store, StoreError, Watch};
use kodiak_world::Change;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::{
    leader::PAUSE,
    quarantine::{Built, Entry, Panicked, Quarantine, build, caught},
};
use observe::ObservedState;

pub use preview::preview;

const TASK: &str = "services";
/// Changes are batched until none arrived for this time,
const QUIET: Duration = Duration::from_millis(100);
/// or at most for this time.
const LONGEST: Duration = Duration::from_secs(1);

struct Services {
    store: Store,
    settings: ServiceSettings,
    watch: Watch,
    state: ObservedState,
    quarantine: Quarantine,
    drain: CancellationToken,
}

/// Runs until `drain`, or until the store is closed.
pub async fn run(
    store: Store,
    settings: ServiceSettings,
    quarantine: Quarantine,
    drain: CancellationToken,
) -> Result<(), StoreError> {
    let mut leadership = store.leadership();
    let mut services = Services::start(store, settings, quarantine, drain.clone())?;
    let mut retry: Option<Instant> = None;
    loop {
        services.state.reconciler.tick(Timestamp::now());
        if retry.is_none() && services.state.reconciler.is_unsettled() && services.store.leader().is_some() {
            services.gather().await?;
            retry = services.reconcile().await?.then(|| Instant::now() + PAUSE);
        }
        tokio::select! {
            biased;
            () = drain.cancelled() => return Ok(()),
            () = until(retry) => retry = None,
            change = services.watch.next() => {
                services.apply(&change?.typed())?;
            }
            _ = leadership.changed() => (),
            () = past(services.state.reconciler.next_tick()) => (),
        }
    }
}

impl Services {
    /// Loads the whole store before the first write: decisions on partial state would revert correct records.
    fn start(
        store: Store,
        settings: ServiceSettings,
        quarantine: Quarantine,
        drain: CancellationToken,
    ) -> Result<Self, StoreError> {
        let (watch, state) = (store.watch(0)?, ObservedState::new(settings.clone(), Timestamp::now()));
        let mut services = Self { store, settings, watch, state, quarantine, drain };
        services.rebuild(false)?;
        Ok(services)
    }

    fn apply(&mut self, change: &Change) -> Result<(), StoreError> {
        self.quarantine.release(TASK, &change.key);
        let snapshot = self.store.snapshot();
        caught(|| self.state.change(change, &snapshot)).or_else(|panicked| self.panicked(&panicked))
    }

    /// Pending writes. Empty after a panic, which rebuilds the state.
    fn due(&mut self) -> Result<Due, StoreError> {
        match caught(|| self.state.reconciler.due(Timestamp::now())) {
            Ok(due) => Ok(due),
            Err(panicked) => self.panicked(&panicked).map(|()| Due::default()),
        }
    }

    fn panicked(&mut self, panicked: &Panicked) -> Result<(), StoreError> {
        tracing::error!(task = TASK, %panicked, "reconciler panicked, starting it again without the resource that caused it");
        self.rebuild(true)
    }

    /// Rebuilds the state from the store without resources that cause a panic. `all` also tries the computation of
    /// writes.
    fn rebuild(&mut self, all: bool) -> Result<(), StoreError> {
        let snapshot = self.store.snapshot();
        self.watch = self.store.watch(snapshot.revision())?;
        let now = Timestamp::now();
        let mut changes: Vec<Change> = snapshot.world().changes().collect();
        // The newest change is the most likely cause, so it comes last.
        changes.sort_by_key(|change| change.revision);
        let replay = |changes: &[&Change]| {
            let mut state = ObservedState::new(self.settings.clone(), now);
            for change in changes {
                state.change(change, &snapshot);
            }
            state
        };
        let Built { value, faulty } = build(&changes, |changes| {
            if all {
                drop(replay(changes).reconciler.due(now));
            }
            replay(changes)
        });
        for (position, panicked) in faulty {
            let Change { key, revision, .. } = &changes[position];
            self.quarantine.add(TASK, key, Entry { revision: *revision, panicked });
        }
        self.state = value;
        Ok(())
    }

    /// Batches changes: waits until no change affects a service, up to [`LONGEST`].
    async fn gather(&mut self) -> Result<(), StoreError> {
        let latest = Instant::now() + LONGEST;
        let mut quiet = Instant::now() + QUIET;
        loop {
            let before = self.state.reconciler.notices();
            tokio::select! {
                biased;
                () = self.drain.cancelled() => return Ok(()),
                () = tokio::time::sleep_until(quiet.min(latest)) => return self.catch_up(),
                change = self.watch.next() => {
                    self.apply(&change?.typed())?;
                }
            }
            if self.state.reconciler.notices() != before {
                quiet = Instant::now() + QUIET;
            }
        }
    }

    /// Applies all pending changes, so that a transaction is never seen in part.
    fn catch_up(&mut self) -> Result<(), StoreError> {
        while let Some(change) = self.watch.try_next()? {
            self.apply(&change.typed())?;
        }
        Ok(())
    }
}

/// Waits until a moment; without one, for ever.
pub(crate) async fn until(moment: Option<Instant>) {
    match moment {
        Some(moment) => tokio::time::sleep_until(moment).await,
        None => std::future::pending().await,
    }
}

/// Waits until a time of the wall clock.
async fn past(time: Option<Timestamp>) {
    match time {
        Some(time) => {
            let left = time.duration_since(Timestamp::now());
            tokio::time::sleep(Duration::try_from(left).unwrap_or(Duration::ZERO)).await;
        }
        None => std::future::pending().await,
    }
}
