//! A proxy that is about to end asks to receive no more requests.

use kodiak_model::ProxyKey;
use kodiak_store::{Snapshot, StoreError};

use super::{InboundReadiness, causes::Hold, round::write};
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
        authorize: impl Fn(&Snapshot, &EffectiveDataplane) -> Result<(), String>,
    ) -> Result<(), DrainError> {
        loop {
            let snapshot = self.store.snapshot();
            let Some(known) = stored::dataplane(&snapshot, key) else {
                self.deleted(key, snapshot.revision());
                return Err(DrainError::NotFound);
            };
            authorize(&snapshot, &known).map_err(DrainError::Denied)?;
            let causes = {
                let mut proxies = self.proxies();
                let causes = proxies.entry(key.clone()).or_default();
                causes.hold = Some(Hold::draining(causes.hold.take(), &known.spec, snapshot.revision()));
                // The round looks again: it repeats this write if it fails, and undoes one of its own that a report of
                // health checks caused at the same time.
                causes.due = true;
                causes.clone()
            };
            let Some(write) = write(&snapshot, key, &causes, self.probing) else { return Ok(()) };
            match self.store.commit(write.into()).await {
                Ok(_) => return Ok(()),
                // Each conflict is somebody else's write that succeeded, so this ends.
                Err(StoreError::Conflict(_)) => (),
                Err(error) => return Err(DrainError::Store(error)),
            }
        }
    }
}
