//! Resources that the client has and its snapshot lacks: since when nothing refers to them.
//!
//! A snapshot is complete, so nothing in it refers to such a resource. Only resources that the client has in another
//! version may, until it has answered the response that replaced them. Each resource is tracked for itself: listeners may
//! change at any rate without keeping clusters that they do not use.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::message::Nonce;
use crate::resource::{Need, Snapshot};
use crate::subscription::{Held, Subscription};
use crate::type_url::TypeUrl;

/// Types that refer to clusters, or are used by connections.
const TRAFFIC: [TypeUrl; 2] = [TypeUrl::Listener, TypeUrl::Route];
/// Types that refer to others.
pub(super) const USERS: [TypeUrl; 3] = [TypeUrl::Listener, TypeUrl::Route, TypeUrl::Cluster];
/// Types that others refer to, users first.
pub(super) const REMOVED_LAST: [TypeUrl; 3] = [TypeUrl::Cluster, TypeUrl::Endpoint, TypeUrl::Secret];

#[derive(Debug, Default)]
pub(super) struct Unused {
    phases: BTreeMap<Need, Phase>,
    /// Whether clusters wait for drains.
    drains: bool,
    begun: u64,
    ended: u64,
}

#[derive(Debug, Clone, Copy)]
enum Phase {
    /// Its last user is replaced by a response up to this one, which the client has not answered.
    Replaced(Nonce),
    /// Nothing refers to it, but connections may use it until this drain ends. Drain 0 has ended.
    Drains(u64),
}

impl Unused {
    pub(super) fn draining() -> Self {
        Self { drains: true, ..Self::default() }
    }

    pub(super) fn drains(&self) -> u64 {
        self.begun
    }

    pub(super) fn drained(&mut self, drain: u64) {
        self.ended = self.ended.max(drain.min(self.begun));
    }

    pub(super) fn may_remove(&self, type_url: TypeUrl, name: &Arc<str>) -> bool {
        let phase = self.phases.get(&(type_url, Arc::clone(name)));
        matches!(phase, Some(Phase::Drains(drain)) if *drain <= self.ended)
    }

    /// Follows what the client has; `last` is the last response. Returns whether more may be removed than before.
    pub(super) fn update<S: Subscription>(
        &mut self,
        subscriptions: &[S; TypeUrl::COUNT],
        snapshot: &Snapshot,
        last: Nonce,
    ) -> bool {
        let of = |type_url: TypeUrl| &subscriptions[type_url.index()];
        let gone = |each: TypeUrl| {
            let target = snapshot.of(each);
            let gone = of(each).differing(target).filter(|name| !target.contains_key(*name));
            gone.map(move |name| (each, Arc::clone(name)))
        };
        let stale: BTreeSet<Need> = REMOVED_LAST.into_iter().flat_map(gone).collect();
        self.phases.retain(|need, _| stale.contains(need));
        if stale.is_empty() {
            return false;
        }
        let users = Users::of(subscriptions, snapshot);
        let answered = |(kind, _): &Need, nonce: Nonce| users_of(*kind).iter().all(|each| of(*each).is_answered(nonce));
        // A client that reconnects reports clusters before the listeners that may refer to them.
        let resumes = !of(TypeUrl::Listener).is_active() && !snapshot.of(TypeUrl::Listener).is_empty();
        let is_reported = |(kind, name): &Need| matches!(of(*kind).held(name), Held::Reported(_) | Held::Foreign);
        let drains = self.drains && TRAFFIC.into_iter().any(|each| of(each).is_active());
        let (next, mut more) = (self.begun + 1, false);
        for need in stale {
            let nonce = match self.phases.get(&need) {
                Some(Phase::Drains(_)) => continue,
                Some(Phase::Replaced(nonce)) => *nonce,
                None if users.may_use(&need) || (resumes && is_reported(&need)) => continue,
                None => last,
            };
            let phase = match need.0 {
                _ if !answered(&need, nonce) => Phase::Replaced(nonce),
                TypeUrl::Cluster if drains => {
                    self.begun = next;
                    Phase::Drains(next)
                }
                // Connections use them through clusters only.
                TypeUrl::Cluster | TypeUrl::Endpoint | TypeUrl::Secret | TypeUrl::Listener | TypeUrl::Route => {
                    more = true;
                    Phase::Drains(0)
                }
            };
            self.phases.insert(need, phase);
        }
        more
    }
}

fn users_of(kind: TypeUrl) -> &'static [TypeUrl] {
    if kind == TypeUrl::Cluster { &TRAFFIC } else { &USERS }
}

/// References of resources that the client has in another version than the snapshot.
#[derive(Default)]
struct Users {
    needs: BTreeSet<Need>,
    /// Types of resources of which only a version is known, or not even that.
    unknown: BTreeSet<TypeUrl>,
}

impl Users {
    fn of<S: Subscription>(subscriptions: &[S; TypeUrl::COUNT], snapshot: &Snapshot) -> Self {
        let mut users = Self::default();
        for user in USERS {
            let subscription = &subscriptions[user.index()];
            for name in subscription.differing(snapshot.of(user)) {
                match subscription.held(name).needs() {
                    Some(needs) => users.needs.extend(needs.iter().cloned()),
                    None => drop(users.unknown.insert(user)),
                }
            }
        }
        users
    }

    fn may_use(&self, need: &Need) -> bool {
        self.needs.contains(need) || users_of(need.0).iter().any(|each| self.unknown.contains(each))
    }
}
