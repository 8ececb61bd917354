//! A proxy that is about to end asks to receive no more requests.

use std::sync::Arc;

use kodiak_model::{ProxyKey, kinds::dataplane::DataplaneStatus, language};
use kodiak_store::{Expect, Snapshot, StoreError, Transaction, Write};

use super::{
    InboundReadiness,
    causes::{Cause, Hold},
    round::write,
};
use crate::{dataplane::EffectiveDataplane, stored};

pub(crate) enum DrainError {
    /// The Dataplane does not exist.
    NotFound,
    Denied(String),
    Store(StoreError),
}

impl InboundReadiness {
    /// Makes every inbound of the stored Dataplane NotReady, and returns when that is durable. `authorize` is asked about
    /// each version of the Dataplane that the decision is made on.
    pub(crate) async fn drain(
        &self,
        key: &ProxyKey,
        authorize: impl Fn(&EffectiveDataplane) -> Result<(), String>,
    ) -> Result<(), DrainError> {
        loop {
            let snapshot = self.store.snapshot();
            let Some(known) = stored::dataplane(&snapshot, key) else {
                self.deleted(key, snapshot.revision());
                return Err(DrainError::NotFound);
            };
            authorize(&known).map_err(DrainError::Denied)?;
            let causes = {
                let mut proxies = self.proxies();
                let causes = proxies.entry(key.clone()).or_default();
                causes.hold = Some(Hold::draining(causes.hold.take(), &known.spec, snapshot.revision()));
                // The round looks again: it repeats this write if it fails, and undoes one of its own that a report of
                // health checks caused at the same time.
                causes.due = true;
                causes.clone()
            };
            let mark = mark(&snapshot, key, true);
            let writes: Vec<_> = write(&snapshot, key, &causes, self.probing).into_iter().chain(mark).collect();
            if writes.is_empty() {
                return Ok(());
            }
            match self.store.commit(Transaction(writes)).await {
                Ok(_) => return Ok(()),
                // Each conflict is somebody else's write that succeeded, so this ends.
                Err(StoreError::Conflict(_)) => (),
                Err(error) => return Err(DrainError::Store(error)),
            }
        }
    }

    /// A new process of the proxy starts: a drain of the one before is over. Inbounds stay as they are until the new one
    /// has acknowledged its configuration.
    pub(crate) async fn restarted(&self, key: &ProxyKey) -> Result<(), StoreError> {
        if let Some(hold) = self.proxies().get_mut(key).and_then(|causes| causes.hold.as_mut())
            && hold.cause == Cause::Draining
        {
            hold.cause = Cause::Arriving { stream: None };
        }
        loop {
            let Some(write) = mark(&self.store.snapshot(), key, false) else { return Ok(()) };
            match self.store.commit(write.into()).await {
                Ok(_) | Err(StoreError::NotFound(_)) => return Ok(()),
                Err(StoreError::Conflict(_)) => (),
                Err(error) => return Err(error),
            }
        }
    }
}

/// The write that marks the Dataplane as draining or not, for all control planes; `None` when it is marked so already.
fn mark(snapshot: &Snapshot, key: &ProxyKey, draining: bool) -> Option<Write> {
    let resource = snapshot.world().get(&key.dataplane())?;
    // One that cannot be read vouches for nothing, and must not be replaced by one that does.
    let status = resource.readable_status::<DataplaneStatus>()?;
    let expect = resource.status_version.map_or(Expect::Absent, Expect::Version);
    (status.draining != draining).then(|| {
        let status = DataplaneStatus { draining, ..Arc::unwrap_or_clone(status) };
        Write::PutStatus { key: key.dataplane(), status: language::to_json(&status).into(), expect }
    })
}
