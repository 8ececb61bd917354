//! Keeps what the control plane knows of services: MeshServices that follow from Dataplanes, their state and identities,
//! how many proxies stand behind them, virtual addresses and names.
//!
//! What is wanted is said by [`kodiak_views::service_status::Keeper`]; here the store tells it what is there, and gets what it wants.

mod foresee;
mod tell;
mod write;

use std::time::Duration;

use jiff::Timestamp;
use kodiak_store::{Store, StoreError, Watch};
use kodiak_views::service_status::Settings;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::leader::{PAUSE, leads};
use tell::Told;

pub use foresee::foresee;

/// What comes in a row is written together: when it has been quiet for so long,
const QUIET: Duration = Duration::from_millis(100);
/// or at the latest after so long.
const LONGEST: Duration = Duration::from_secs(1);

struct Services {
    store: Store,
    watch: Watch,
    told: Told,
    drain: CancellationToken,
}

/// Runs until `drain`, or until the store is closed.
pub async fn run(store: Store, settings: Settings, drain: CancellationToken) -> Result<(), StoreError> {
    let mut leadership = store.leadership();
    let mut services = Services::start(store, settings, drain.clone())?;
    let mut retry: Option<Instant> = None;
    loop {
        services.told.keeper.tick(Timestamp::now());
        if retry.is_none() && services.told.keeper.is_unsettled() && leads(&services.store) {
            services.gather().await?;
            retry = services.reconcile().await?.then(|| Instant::now() + PAUSE);
        }
        tokio::select! {
            biased;
            () = drain.cancelled() => return Ok(()),
            () = until(retry) => retry = None,
            change = services.watch.next() => services.told.change(&change?),
            _ = leadership.changed() => (),
            () = past(services.told.keeper.next_tick()) => (),
        }
    }
}

impl Services {
    /// All that is stored is told first: who knows half of it would undo what is right.
    fn start(store: Store, settings: Settings, drain: CancellationToken) -> Result<Self, StoreError> {
        let snapshot = store.snapshot();
        let watch = store.watch(snapshot.revision())?;
        let mut services = Self { store, watch, told: Told::new(settings, Timestamp::now()), drain };
        for record in snapshot.iter() {
            services.told.record(&record.key, Some(record));
        }
        Ok(services)
    }

    /// Waits until nothing comes that concerns a service, but not for ever.
    async fn gather(&mut self) -> Result<(), StoreError> {
        let latest = Instant::now() + LONGEST;
        let mut quiet = Instant::now() + QUIET;
        loop {
            let before = self.told.keeper.notices();
            tokio::select! {
                biased;
                () = self.drain.cancelled() => return Ok(()),
                () = tokio::time::sleep_until(quiet.min(latest)) => return self.catch_up(),
                change = self.watch.next() => self.told.change(&change?),
            }
            if self.told.keeper.notices() != before {
                quiet = Instant::now() + QUIET;
            }
        }
    }

    /// All that is there already is told: of what was written together no half is looked at.
    fn catch_up(&mut self) -> Result<(), StoreError> {
        while let Some(change) = self.watch.try_next()? {
            self.told.change(&change);
        }
        Ok(())
    }
}

async fn until(moment: Option<Instant>) {
    match moment {
        Some(moment) => tokio::time::sleep_until(moment).await,
        None => std::future::pending().await,
    }
}

/// Waits until the clock shows it.
async fn past(time: Option<Timestamp>) {
    match time {
        Some(time) => {
            let left = time.duration_since(Timestamp::now());
            tokio::time::sleep(Duration::try_from(left).unwrap_or(Duration::ZERO)).await;
        }
        None => std::future::pending().await,
    }
}
