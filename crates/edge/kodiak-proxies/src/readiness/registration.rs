//! Readiness of a Dataplane that a proxy registers.

use kodiak_model::{
    ProxyKey,
    kinds::dataplane::{Dataplane, DataplaneStatus},
};

use super::{
    InboundReadiness,
    causes::{Hold, NOT_STORED},
};

/// A registration under way. Dropped without [`Registration::stored`], it leaves the causes as they were before.
pub(crate) struct Registration<'a> {
    readiness: &'a InboundReadiness,
    key: &'a ProxyKey,
    previous: Option<Hold>,
    stored: bool,
}

impl InboundReadiness {
    pub(crate) fn registration<'a>(&'a self, key: &'a ProxyKey) -> Registration<'a> {
        let previous = self.proxies().get(key).and_then(|causes| causes.hold.clone());
        Registration { readiness: self, key, previous, stored: false }
    }
}

impl Registration<'_> {
    /// Holds back the inbounds that do not serve yet, or all of them while the process ends. To be called again when the
    /// stored Dataplane has changed since.
    pub(crate) fn hold(&self, provided: &mut Dataplane, stored: Option<&Dataplane>, status: &DataplaneStatus) {
        let hold = match self.readiness.ending(status) {
            Some(ending) => Some(Hold::still_ending(ending, provided)),
            None => Hold::arriving(provided, stored, self.readiness.probing),
        };
        // Before the Dataplane is stored, so that no report of health checks comes in between.
        self.readiness.proxies().entry(self.key.clone()).or_default().hold = hold;
    }

    /// The Dataplane is in the store at this revision.
    pub(crate) fn stored(mut self, revision: u64) {
        self.stored = true;
        if let Some(hold) = self.readiness.proxies().get_mut(self.key).and_then(|causes| causes.hold.as_mut()) {
            hold.stored_at = revision;
        }
    }
}

impl Drop for Registration<'_> {
    fn drop(&mut self) {
        if self.stored {
            return;
        }
        if let Some(causes) = self.readiness.proxies().get_mut(self.key) {
            let is_ours = causes.hold.as_ref().is_none_or(|hold| hold.stored_at == NOT_STORED);
            if is_ours {
                causes.hold = self.previous.take();
            }
        }
    }
}
