//! Changed labels of a proxy, from which another SPIFFE ID follows. They take the steps of a change of issuers: the step of a
//! mesh keeps the labels that the proxy presents, and the target has none.
//!
//! **Invariant:** the step that keeps the labels is stored in the transaction that changes them, so no proxy ever presents a
//! SPIFFE ID that not all clients have acknowledged.

use std::sync::Arc;

use kodiak_model::Labels;

use crate::{Issuers, Rollout};

impl Rollout {
    /// The step after the labels of a proxy changed: it presents the SPIFFE ID by its labels before, and clients expect both.
    #[must_use]
    pub fn keeping(&self, proxy: &Arc<str>, before: &Arc<Labels>) -> Self {
        let mut step = self.clone();
        // Issuers without an entry follow the labels of the Dataplane, so they meant the ones before.
        let before_of = |issuers: &mut Issuers| {
            issuers.presented.entry(proxy.clone()).or_insert_with(|| before.clone());
        };
        match &mut step.other_issuers {
            Some(other) => before_of(other),
            // Without a change on the way, the next one is prepared at once.
            None => step.other_issuers = Some(step.issuers.clone()),
        }
        before_of(&mut step.issuers);
        step
    }

    /// The step without labels that are kept for a proxy. `None` if there are none.
    pub fn releasing(&self, proxy: &str) -> Option<Self> {
        let mut step = self.clone();
        let mut is_kept = step.issuers.presented.remove(proxy).is_some();
        if let Some(other) = &mut step.other_issuers {
            is_kept |= other.presented.remove(proxy).is_some();
        }
        is_kept.then_some(step)
    }

    /// Labels from which the certificate of a proxy follows, or may still follow, instead of those of its Dataplane.
    pub fn kept_labels<'a>(&'a self, proxy: &'a str) -> impl Iterator<Item = &'a Arc<Labels>> {
        self.all_issuers().filter_map(move |issuers| issuers.presented.get(proxy))
    }
}
