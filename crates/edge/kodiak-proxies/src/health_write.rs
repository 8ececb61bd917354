//! Writing down which inbounds are ready, as their probes found it.
//!
//! Every write expects the version that it is made from: nobody's change of a Dataplane is undone, and after a conflict
//! the newest is looked at.

use std::time::Duration;

use kodiak_catalog::owner_of;
use kodiak_model::{ProxyKey, language};
use kodiak_store::{Expect, Snapshot, StoreError, Write};
use kodiak_xds::health::Findings;
use tokio::time::Instant;

use crate::{Registry, batch, dataplane};

/// A workload that comes and goes faster than this is not written down each time.
const PAUSE: Duration = Duration::from_secs(1);

/// What was found, and has to be looked at.
struct Due {
    key: ProxyKey,
    findings: Findings,
    /// Not while the proxy arrives or drains.
    may_serve: bool,
}

impl Registry {
    /// Makes inbounds ready or not where their probes found something new.
    pub(crate) async fn heal(&self) {
        let store = self.0.catalog.store();
        // Taken first: whoever begins to drain after this changes the Dataplane, and our write is refused.
        let snapshot = store.snapshot();
        let (keys, writes): (Vec<_>, Vec<_>) =
            self.take_due().into_iter().filter_map(|due| Some((due.key.clone(), write(&snapshot, due)?))).unzip();
        for (key, outcome) in keys.into_iter().zip(batch::commit(store, &writes).await) {
            match outcome {
                Ok(()) => {
                    tracing::info!(proxy = %key, "Probes have changed which inbounds of a proxy are ready.");
                    self.mark_healed(&key);
                }
                Err(StoreError::NotFound(_)) => (),
                Err(StoreError::Conflict(_)) => {
                    self.heal_again(&key);
                    self.0.nudge.notify_one();
                }
                Err(error) => {
                    tracing::warn!(proxy = %key, %error, "Cannot say which inbounds are ready; will try again.");
                    self.heal_again(&key);
                }
            }
        }
    }

    fn take_due(&self) -> Vec<Due> {
        let now = Instant::now();
        let mut state = self.state();
        let state = &mut *state;
        let is_over = |written: &Instant| now.duration_since(*written) >= PAUSE;
        let due = state.health.iter_mut().filter_map(|(key, stream)| {
            if !stream.due || !stream.written.as_ref().is_none_or(is_over) {
                return None;
            }
            stream.due = false;
            let may_serve = !state.drained.contains_key(key);
            Some(Due { key: key.clone(), findings: stream.findings.clone()?, may_serve })
        });
        due.collect()
    }

    fn mark_healed(&self, key: &ProxyKey) {
        if let Some(stream) = self.state().health.get_mut(key) {
            stream.written = Some(Instant::now());
        }
    }

    /// With the next round.
    fn heal_again(&self, key: &ProxyKey) {
        if let Some(stream) = self.state().health.get_mut(key) {
            stream.due = true;
        }
    }
}

/// Nothing when the Dataplane says it already, or is gone.
fn write(snapshot: &Snapshot, due: Due) -> Option<Write> {
    let Due { key, findings, may_serve } = due;
    let record = snapshot.get(&key.dataplane())?;
    let mut spec = dataplane::in_force(record)?.spec;
    findings.apply(&mut spec, may_serve).then(|| Write::Put {
        key: key.dataplane(),
        spec: language::to_json(&spec).into(),
        labels: (*record.labels).clone(),
        owner: owner_of(dataplane::kind(), &key.mesh, &key.name),
        expect: Expect::Version(record.version),
    })
}
