//! Model clients: how a proxy handles responses, written independently of the server.
//!
//! Both are given the same [`Op`]s. Resources in version [`POISON`] are rejected, the others of the same response are
//! accepted. Each asserts that the server answers every request, and sends nothing twice without a reason.

pub(super) mod delta;
pub(super) mod sotw;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::resource::{Encoded, Resources, Snapshot, Version};
use crate::type_url::TypeUrl;

pub(super) const POISON: Version = Version(3);

#[derive(Debug, Clone)]
pub(super) enum Op {
    Snapshot(Arc<Snapshot>),
    /// The client reads and answers one response.
    Step,
    /// To a name, or to `*`.
    Subscribe(TypeUrl, &'static str),
    Unsubscribe(TypeUrl, &'static str),
    Reconnect,
}

/// Resources of one type that a client has.
pub(super) type Holds = BTreeMap<Arc<str>, Version>;

#[derive(Debug, Clone, Default)]
pub(super) struct Interest {
    pub(super) wildcard: bool,
    pub(super) names: BTreeSet<Arc<str>>,
}

impl Interest {
    pub(super) fn any(&self) -> bool {
        self.wildcard || !self.names.is_empty()
    }

    pub(super) fn covers(&self, name: &str) -> bool {
        self.wildcard || self.names.contains(name)
    }

    pub(super) fn add(&mut self, name: &'static str) {
        if name == "*" {
            self.wildcard = true;
        } else {
            self.names.insert(name.into());
        }
    }

    pub(super) fn drop(&mut self, name: &str) {
        if name == "*" {
            self.wildcard = false;
        } else {
            self.names.remove(name);
        }
    }

    /// Final resources of a client with these subscriptions.
    pub(super) fn of(&self, resources: &Resources) -> Holds {
        let covered = resources.values().filter(|resource| self.covers(&resource.name));
        covered.map(|resource| (resource.name.clone(), resource.version)).collect()
    }
}

/// Applies the valid resources that are subscribed; returns the error if one is invalid.
fn take(holds: &mut Holds, interest: &Interest, resources: &[Arc<Encoded>]) -> Option<Arc<str>> {
    for resource in resources.iter().filter(|each| each.version != POISON && interest.covers(&each.name)) {
        holds.insert(resource.name.clone(), resource.version);
    }
    resources.iter().any(|resource| resource.version == POISON).then(|| "poison".into())
}
