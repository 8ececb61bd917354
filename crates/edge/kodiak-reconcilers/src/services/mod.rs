//! Keeps what the control plane knows of services: MeshServices that follow from Dataplanes, their state and identities,
//! how many proxies stand behind them, virtual addresses and names.
//!
//! What is wanted is said by [`kodiak_services::service_status::Keeper`]; here the store tells it what is there, and gets what it wants.

mod foresee;
mod tell;
#[cfg(test)]
mod tests;
mod write;

use std::time::Duration;

use jiff::Timestamp;
use kodiak_services::service_status::{Due, Settings};
use kodiak_store::{Store, StoreError, Watch};
use kodiak_world::Change;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::{
    leader::{PAUSE, leads},
    quarantine::{Built, Entry, Panicked, Quarantine, build, caught},
};
use tell::Told;

pub use foresee::foresee;

const TASK: &str = "services";
/// What comes in a row is written together: when it has been quiet for so long,
const QUIET: Duration = Duration::from_millis(100);
/// or at the latest after so long.
const LONGEST: Duration = Duration::from_secs(1);

struct Services {
    store: Store,
    settings: Settings,
    watch: Watch,
    told: Told,
    quarantine: Quarantine,
    drain: CancellationToken,
}

/// Runs until `drain`, or until the store is closed.
pub async fn run(
    store: Store,
    settings: Settings,
    quarantine: Quarantine,
    drain: CancellationToken,
) -> Result<(), StoreError> {
    let mut leadership = store.leadership();
    let mut services = Services::start(store, settings, quarantine, drain.clone())?;
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
            change = services.watch.next() => {
                services.tell(&change?.typed())?;
            }
            _ = leadership.changed() => (),
            () = past(services.told.keeper.next_tick()) => (),
        }
    }
}

impl Services {
    /// All that is stored is told first: who knows half of it would undo what is right.
    fn start(
        store: Store,
        settings: Settings,
        quarantine: Quarantine,
        drain: CancellationToken,
    ) -> Result<Self, StoreError> {
        let (watch, told) = (store.watch(0)?, Told::new(settings.clone(), Timestamp::now()));
        let mut services = Self { store, settings, watch, told, quarantine, drain };
        services.make_anew(false)?;
        Ok(services)
    }

    fn tell(&mut self, change: &Change) -> Result<(), StoreError> {
        self.quarantine.release(TASK, &change.key);
        caught(|| self.told.change(change)).or_else(|panicked| self.panicked(&panicked))
    }

    /// What is to be written. Nothing, when it panicked and was made anew.
    fn due(&mut self) -> Result<Due, StoreError> {
        match caught(|| self.told.keeper.due(Timestamp::now())) {
            Ok(due) => Ok(due),
            Err(panicked) => self.panicked(&panicked).map(|()| Due::default()),
        }
    }

    fn panicked(&mut self, panicked: &Panicked) -> Result<(), StoreError> {
        tracing::error!(task = TASK, %panicked, "reconciler panicked, starting it again without the resource that caused it");
        self.make_anew(true)
    }

    /// From all that is stored but the resources that panic it, now or, where `all` is asked for, when it says what is due.
    fn make_anew(&mut self, all: bool) -> Result<(), StoreError> {
        let snapshot = self.store.snapshot();
        self.watch = self.store.watch(snapshot.revision())?;
        let now = Timestamp::now();
        let mut changes: Vec<Change> = snapshot.world().changes().collect();
        // The newest is the most likely to be at fault.
        changes.sort_by_key(|change| change.revision);
        let tell = |changes: &[&Change]| {
            let mut told = Told::new(self.settings.clone(), now);
            for change in changes {
                told.change(change);
            }
            told
        };
        let Built { value, faulty } = build(&changes, |changes| {
            if all {
                drop(tell(changes).keeper.due(now));
            }
            tell(changes)
        });
        for (position, panicked) in faulty {
            let Change { key, revision, .. } = &changes[position];
            self.quarantine.add(TASK, key, Entry { revision: *revision, panicked });
        }
        self.told = value;
        Ok(())
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
                change = self.watch.next() => {
                    self.tell(&change?.typed())?;
                }
            }
            if self.told.keeper.notices() != before {
                quiet = Instant::now() + QUIET;
            }
        }
    }

    /// All that is there already is told: of what was written together no half is looked at.
    fn catch_up(&mut self) -> Result<(), StoreError> {
        while let Some(change) = self.watch.try_next()? {
            self.tell(&change.typed())?;
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
