//! Writing decisions about inbounds, batched.

use std::time::Duration;

use kodiak_catalog::owner_of;
use kodiak_model::{ProxyKey, language};
use kodiak_store::{Expect, Snapshot, StoreError, Transaction, Write};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep};
use tokio_util::sync::CancellationToken;

use super::{
    InboundReadiness,
    causes::{Cause, Causes},
    drain::status_write,
};
use crate::{
    batch, dataplane,
    run::{GATHER, TICK},
    stored,
};

/// Shortest time between two writes that probes of one proxy cause: a flapping workload is not written each time.
const PAUSE: Duration = Duration::from_secs(1);

impl InboundReadiness {
    /// Writes decisions as they become due, until the drain of the control plane.
    pub(crate) async fn run(&self, drain: &CancellationToken) {
        let mut tick = interval(TICK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                biased;
                () = drain.cancelled() => return,
                () = self.due.notified() => sleep(GATHER).await,
                _ = tick.tick() => (),
            }
            self.write_due().await;
        }
    }

    async fn write_due(&self) {
        // Taken before the causes: a drain that begins after this changes the Dataplane, and this write is refused.
        let snapshot = self.store.snapshot();
        let (mut written, mut transactions) = (Vec::new(), Vec::new());
        for (key, causes) in self.take_due() {
            if snapshot.get(&key.dataplane()).is_none() {
                self.deleted(&key, snapshot.revision());
                continue;
            }
            let writes = writes(&snapshot, &key, &causes, self.probing);
            if writes.is_empty() {
                self.finished(&key, &causes, None);
            } else {
                written.push((key, causes));
                transactions.push(Transaction(writes));
            }
        }
        for ((key, causes), outcome) in written.into_iter().zip(batch::commit(&self.store, transactions).await) {
            match outcome {
                Ok(()) => {
                    let cause = match &causes {
                        causes if causes.is_arrived() => "Envoy is ready",
                        causes if causes.is_not_live() => "Envoy drains",
                        _ => "health checks",
                    };
                    tracing::info!(proxy = %key, cause, "inbound readiness changed");
                    self.finished(&key, &causes, Some(Instant::now()));
                }
                Err(StoreError::Conflict(_)) => {
                    self.retry(&key);
                    self.due.notify_one();
                }
                Err(error) => {
                    tracing::warn!(proxy = %key, %error, "failed to persist inbound readiness, retrying");
                    self.retry(&key);
                }
            }
        }
    }

    fn take_due(&self) -> Vec<(ProxyKey, Causes)> {
        let now = Instant::now();
        let may_write = |causes: &Causes| {
            causes.is_arrived() || causes.written.is_none_or(|written| now.duration_since(written) >= PAUSE)
        };
        let mut proxies = self.proxies();
        let due = proxies.iter_mut().filter(|(_, causes)| causes.due && may_write(causes));
        due.map(|(key, causes)| {
            causes.due = false;
            (key.clone(), causes.clone())
        })
        .collect()
    }

    /// The stored Dataplane is as these causes decide.
    fn finished(&self, key: &ProxyKey, decided: &Causes, written: Option<Instant>) {
        let mut proxies = self.proxies();
        let Some(causes) = proxies.get_mut(key) else { return };
        if decided.is_arrived() {
            causes.hold.take_if(|hold| hold.cause == Cause::Arrived);
        } else if written.is_some() {
            causes.written = written;
        }
        if causes.hold.is_none() && causes.probes.is_none() {
            proxies.remove(key);
        }
    }

    fn retry(&self, key: &ProxyKey) {
        if let Some(causes) = self.proxies().get_mut(key) {
            causes.due = true;
        }
    }
}

/// The writes that apply the decision to the Dataplane and its status. None when they say so already.
pub(super) fn writes(snapshot: &Snapshot, key: &ProxyKey, causes: &Causes, probing: bool) -> Vec<Write> {
    let status = status_write(snapshot, key, |status| causes.apply_to_status(status));
    spec_write(snapshot, key, causes, probing).into_iter().chain(status).collect()
}

fn spec_write(snapshot: &Snapshot, key: &ProxyKey, causes: &Causes, probing: bool) -> Option<Write> {
    let record = snapshot.get(&key.dataplane())?;
    let mut spec = stored::dataplane(snapshot, key)?.spec;
    causes.apply(&mut spec, probing).then(|| Write::Put {
        key: key.dataplane(),
        spec: language::to_json(&spec).into(),
        labels: (*record.labels).clone(),
        owner: owner_of(dataplane::kind(), &key.mesh, &key.name),
        expect: Expect::Version(record.version),
    })
}
