//! Whether the store takes writes, for callers who are not authenticated.
//!
//! Other writes answer it for free. Only when there was none for a while does the probe write, and all callers share that
//! write: a thousand questions cost as much as one.

use std::time::Duration;

use tokio::{
    sync::Mutex,
    time::{Instant, timeout},
};

use crate::{health::Health, store::Store};

/// An answer that is younger than this is good enough.
const INTERVAL: Duration = Duration::from_secs(5);
/// Longer than a commit to a healthy disk or database takes.
const PROBE_TIME: Duration = Duration::from_secs(2);
const SILENT: &str = "the store does not answer; is its disk or its database overloaded?";

#[derive(Default)]
pub struct WriteProbe {
    /// The last probe that did not end in time, which the store itself does not know of.
    silent: Mutex<Option<Instant>>,
}

impl WriteProbe {
    /// Fails with the reason why writes fail.
    pub async fn ask(&self, store: &Store) -> Result<(), String> {
        if let Some(known) = recent(&store.health()) {
            return known;
        }
        // Callers that wait here find what the one before has learned.
        let mut silent = self.silent.lock().await;
        if let Some(known) = recent(&store.health()) {
            return known;
        }
        if silent.is_some_and(|since| since.elapsed() < INTERVAL) {
            return Err(SILENT.to_owned());
        }
        *silent = None;
        match timeout(PROBE_TIME, store.ping()).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(error.with_causes()),
            Err(_) => {
                *silent = Some(Instant::now());
                Err(SILENT.to_owned())
            }
        }
    }
}

fn recent(Health { checked, read_only }: &Health) -> Option<Result<(), String>> {
    let is_recent = checked.elapsed() < INTERVAL;
    is_recent.then(|| read_only.as_ref().map_or(Ok(()), |error| Err(error.with_causes())))
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    };

    use futures_util::future::join_all;

    use super::*;
    use crate::{Backend, Observer, StoreConfig};

    #[derive(Default)]
    struct Commits(AtomicUsize);

    impl Observer for Commits {
        fn committed(&self, _requests: usize, _changes: usize, _took: Duration) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }

        fn failed(&self) {}
    }

    #[tokio::test(start_paused = true)]
    async fn many_questions_cost_one_write_in_each_interval() {
        let commits = Arc::new(Commits::default());
        let mut config = StoreConfig::new(Backend::Memory);
        config.observer = Some(commits.clone());
        let store = Store::open(config).await.unwrap();
        let probe = WriteProbe::default();
        for expected in 0..3 {
            // A store that was just opened has shown that it can be used.
            let answers = join_all((0..100).map(|_| probe.ask(&store))).await;
            assert!(answers.iter().all(Result::is_ok));
            assert_eq!(commits.0.load(Ordering::Relaxed), expected);
            tokio::time::advance(INTERVAL).await;
        }
        store.close().await;
        let refused = probe.ask(&store).await.unwrap_err();
        assert!(refused.contains("closed"), "{refused}");
    }
}
