//! Clusters and listeners: every response holds the full set.
//!
//! A removed cluster stays in the set until listeners and routes no longer use it. Only a client that resumes with
//! another version loses such clusters at once: it does not report its resources.

use std::sync::Arc;

use super::{Interest, version_of};
use crate::resource::{Resources, Version};
use crate::subscription::Draft;

#[derive(Debug, Default)]
pub(super) struct Whole {
    /// The set as it was last sent.
    sent: Resources,
}

impl Whole {
    /// The set to send if it differs from the last, or if `must` is set.
    pub(super) fn plan(&self, interest: &Interest, target: &Resources, keeps: bool, must: bool) -> Option<Draft> {
        let wanted = self.wanted(interest, target, keeps);
        if !must && self.sent.diff(&wanted).next().is_none() {
            return None;
        }
        let is_new = |name: &Arc<str>| self.sent.get(name) != wanted.get(name);
        let changed = wanted.keys().filter(|name| is_new(name)).cloned().collect();
        Some(Draft { resources: wanted.values().cloned().collect(), changed, ..Draft::default() })
    }

    /// The set for the client; with postponed removals, if `keeps`.
    pub(super) fn wanted(&self, interest: &Interest, target: &Resources, keeps: bool) -> Resources {
        let mut wanted = interest.of(target);
        if keeps {
            let stale = self.sent.iter().filter(|(name, _)| !target.contains_key(*name));
            let stale: Vec<_> = stale.map(|(name, resource)| (name.clone(), resource.clone())).collect();
            wanted.extend(stale);
        }
        wanted
    }

    pub(super) fn settle(&mut self, set: Resources) {
        self.sent = set;
    }

    /// A client that requests fewer names drops the rest by itself. Returns whether there was a rest.
    pub(super) fn narrow(&mut self, interest: &Interest) -> bool {
        let before = self.sent.len();
        if !interest.wildcard {
            self.sent = interest.of(&self.sent);
        }
        self.sent.len() != before
    }

    pub(super) fn version(&self) -> Version {
        version_of(&self.sent)
    }
}
