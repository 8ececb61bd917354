//! A proxy that is about to end gets no more requests, because it asked for that or because its Envoy says so.

use kodiak_model::{
    ProxyKey,
    kinds::dataplane::{DataplaneStatus, HeldInbound},
    language,
};
use kodiak_store::{Expect, Snapshot, StoreError, Transaction, Write};

use super::{
    InboundReadiness,
    causes::{Cause, Ending, Hold},
    round::writes,
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
                let earlier = earlier(causes.hold.take(), &snapshot, key);
                causes.hold = Some(Hold::ending(Ending::Draining, earlier, &known.spec, snapshot.revision()));
                // The round looks again: it repeats this write if it fails, and undoes one of its own that a report of
                // health checks caused at the same time.
                causes.due = true;
                causes.clone()
            };
            let writes = writes(&snapshot, key, &causes, self.probing);
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

    /// Envoy fails its own `/ready`: nobody asked to drain, but no request should go there any more.
    pub(super) fn not_live(&self, key: &ProxyKey) {
        let snapshot = self.store.snapshot();
        let Some(known) = stored::dataplane(&snapshot, key) else { return };
        let mut proxies = self.proxies();
        let Some(causes) = proxies.get_mut(key) else { return };
        if causes.hold.as_ref().is_some_and(|hold| hold.cause == Cause::Ending(Ending::Draining)) {
            return;
        }
        let earlier = earlier(causes.hold.take(), &snapshot, key);
        causes.hold = Some(Hold::ending(Ending::NotLive, earlier, &known.spec, snapshot.revision()));
        causes.due = true;
        self.due.notify_one();
    }

    /// A new process of the proxy starts: the end of the one before is over. Inbounds stay as they are until the new one
    /// has acknowledged its configuration. `authorize` is asked about each version of the store that the decision is made
    /// on, before anything changes; `Ok(Err)` is its answer.
    pub(crate) async fn restarted<E>(
        &self,
        key: &ProxyKey,
        authorize: impl Fn(&Snapshot) -> Result<(), E>,
    ) -> Result<Result<(), E>, StoreError> {
        loop {
            let snapshot = self.store.snapshot();
            if let Err(denied) = authorize(&snapshot) {
                return Ok(Err(denied));
            }
            if let Some(hold) = self.proxies().get_mut(key).and_then(|causes| causes.hold.as_mut())
                && matches!(hold.cause, Cause::Ending(_))
            {
                hold.cause = Cause::Arriving { stream: None };
            }
            let started = |status| DataplaneStatus { draining: false, not_live: false, ..status };
            let Some(write) = status_write(&snapshot, key, started) else { return Ok(Ok(())) };
            match self.store.commit(write.into()).await {
                Ok(_) | Err(StoreError::NotFound(_)) => return Ok(Ok(())),
                Err(StoreError::Conflict(_)) => (),
                Err(error) => return Err(error),
            }
        }
    }
}

/// Inbounds that are held back already: by this hold, or by one that is stored.
fn earlier(hold: Option<Hold>, snapshot: &Snapshot, key: &ProxyKey) -> Vec<HeldInbound> {
    hold.map_or_else(|| stored::dataplane_status(snapshot, key).held.clone(), |hold| hold.before)
}

/// The write that changes the status of the Dataplane, which all control planes read; `None` when it is so already.
pub(super) fn status_write(
    snapshot: &Snapshot,
    key: &ProxyKey,
    change: impl FnOnce(DataplaneStatus) -> DataplaneStatus,
) -> Option<Write> {
    let resource = snapshot.world().get(&key.dataplane())?;
    // One that cannot be read vouches for nothing, and must not be replaced by one that does.
    let status = resource.readable_status::<DataplaneStatus>()?;
    let expect = resource.status_version.map_or(Expect::Absent, Expect::Version);
    let changed = change((*status).clone());
    (changed != *status).then(|| Write::PutStatus {
        key: key.dataplane(),
        status: language::to_json(&changed).into(),
        expect,
    })
}
